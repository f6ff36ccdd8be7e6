/** What `startDelayd` takes. */
export interface StartOptions {
  /** Jobs are in memory only. The default, unless there is a `dir`. */
  memory?: boolean;
  /** A folder for the journal, which stays. Without it and with `memory: false` there is one that goes with the server. */
  dir?: string;
  /** delayd's options, in their own words or in camel case: `{ maxLease: '1m' }`. An array stands for several values. */
  options?: Record<string, string | number | boolean | readonly (string | number)[]>;
}

/** A running server. It ends with the process that started it, however that ends. */
export interface DelaydServer {
  readonly port: number;
  /** Where clients connect: `redis://127.0.0.1:PORT`. */
  readonly url: string;
  readonly pid: number;
  /** What the server has logged so far. */
  log(): string;
  /** Stops the server in order and waits for its end. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a server on a free port of the loopback, which answers by the time the promise resolves. */
export function startDelayd(start?: StartOptions): Promise<DelaydServer>;
