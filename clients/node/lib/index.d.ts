import type { EventEmitter } from 'node:events';

export { startDelayd, type DelaydServer, type StartOptions } from './server.js';

/** Milliseconds, or a text such as `500ms`, `30s`, `1h30m`, `15d`. */
export type Duration = number | string;

/** A duration from now, a Date, or a text with an instant and its zone: `2030-01-31T08:00:00+01:00`. */
export type When = Duration | Date;

/**
 * The server: a URL, a client of ioredis or node-redis (which is duplicated, not used), or the options of one. Default:
 * `redis://127.0.0.1:9248`.
 */
export type Connection = Server | Server[];
/** One address; of a cluster or a server with partitions, that of any node. Of an array the others are tried if one does not answer. */
type Server = string | URL | { duplicate(...overrides: any[]): any } | { host?: string; port?: number; [option: string]: any };

/** A ladder `1s,5s,1m` or array of durations, one duration, `exp:1s:1h~`, or as BullMQ writes it. */
export type Backoff = Duration | Duration[] | { type: 'fixed' | 'exponential'; delay: Duration; max?: Duration; jitter?: boolean | number };

export type JobState = 'delayed' | 'ready' | 'leased' | 'dead';

/** Turns bodies into bytes and back. */
export interface Codec<Body = any> {
  encode(body: Body): Uint8Array | string;
  decode(bytes: Buffer): Body;
}

/** The default. Bytes are sent as they are, and an empty body is null. */
export const json: Codec;
/** Handlers are given a Buffer. */
export const bytes: Codec<any>;

/** Headers of a job: at most 64, with names of 1 to 128 bytes, 8 KiB in all. */
export type Meta = Record<string, string | Uint8Array>;

/** What a job, or each job of a schedule, is given instead of the queue's settings. */
export interface JobSettings {
  /** 0 is first, 9 last; 5 is the default. */
  priority?: number;
  /** Deliveries before the job is dead; 0 for no limit. The default is 20. */
  attempts?: number;
  backoff?: Backoff;
  /** The job expires this long after its due time, unless it was delivered. */
  ttl?: Duration;
  /** For consumers that name none; a Worker does. */
  lease?: Duration;
  /** A key such as a customer, 1 to 512 bytes: one group's many jobs do not make the others wait. */
  group?: string | Uint8Array;
  meta?: Meta;
}

export interface JobOptions extends JobSettings {
  /** When it falls due. Default: now. */
  delay?: When;
  /** Unique in its queue: adding it again is refused with the code `EXISTS`. */
  id?: string;
  /** BullMQ's word for `id`. */
  jobId?: string;
  /** If the id is taken, change nothing and answer null. */
  nx?: boolean;
  /** If the id is taken, this job takes its place. */
  replace?: boolean;
  /** As `replace`, but while a worker has the job, this one follows when it is done. */
  latest?: boolean;
  /** With `replace` or `latest`: how long changes may put the job off, from the first one that no worker had. */
  maxDelay?: Duration;
  /** How long the id stays taken after the job is done. */
  unique?: Duration;
}

export interface ScheduleOptions<Body = any> extends JobSettings {
  body?: Body;
  /** A zone for `cron`, such as `Europe/Berlin`. Default: UTC. */
  tz?: string;
  from?: string | Date;
  until?: string | Date;
  /** So many occurrences, then it is done. */
  runs?: number;
  /** Shifts each occurrence by the same share of this. */
  spread?: Duration;
  /** What happens while an earlier occurrence is open. */
  overlap?: 'allow' | 'skip' | 'replace';
  catchup?: number;
  grace?: Duration;
}

export interface JobInfo<Body = any> {
  id: string;
  state: JobState;
  /** Bytes, if the codec cannot decode it. */
  body: Body | Buffer;
  /** Unix ms, as all instants here. */
  due: number;
  added: number;
  priority: number;
  attempt: number;
  maxAttempts: number;
  deliveries: number;
  nacks: number;
  timeouts: number;
  lost: number;
  backoff: string;
  leaseMs: number;
  ttlMs: number;
  expires: number;
  uniqueMs: number;
  token?: string;
  leaseEnd?: number;
  bound?: number;
  reason?: 'attempts' | 'timeout' | 'lost' | 'buried';
  error?: string;
  died?: number;
  /** The last three texts of NACKs, newest first; of the earlier ones the beginning. */
  errors?: { error: string; at: number | null; attempt: number | null }[];
  group?: string | Buffer;
  meta?: Record<string, string | Buffer>;
}

export interface QueueStats {
  delayed: number;
  ready: number;
  leased: number;
  dead: number;
  waiters: number;
  added: number;
  delivered: number;
  acked: number;
  nacked: number;
  timeouts: number;
  [field: string]: any;
}

export interface QueueOptions<Body = any> {
  connection?: Connection;
  /** Options of each add(), where that does not name them. */
  defaultJobOptions?: JobOptions;
  codec?: Codec<Body>;
}

export class Queue<Body = any> implements AsyncDisposable {
  constructor(name: string, options?: QueueOptions<Body> | Server[] | string | URL | { duplicate(...overrides: any[]): any });
  readonly name: string;
  /** Adds a job; answers its id, or null if `nx` was given and the id is taken. */
  add(body: Body | Uint8Array, options: JobOptions & { nx: true }): Promise<string | null>;
  add(body: Body | Uint8Array, options?: JobOptions): Promise<string>;
  /** Adds jobs in pipelines, or in one transaction. Fails with an AggregateError if some were refused; the others are added. */
  addBulk(jobs: ({ body: Body | Uint8Array } & JobOptions)[], how?: { atomic?: boolean }): Promise<(string | null)[]>;
  /** Removes a job and answers the state that it was in, or null. A leased one is left alone without `force`. */
  cancel(id: string, options?: { force?: boolean }): Promise<JobState | null>;
  /** Moves a delayed or ready job; only to a later time with `gt`, to an earlier one with `lt`. */
  reschedule(id: string, to: When, options?: { gt?: boolean; lt?: boolean }): Promise<boolean>;
  get(id: string): Promise<JobInfo<Body> | null>;
  stats(options?: { group?: string | Buffer }): Promise<QueueStats | null>;
  /** Removes jobs in these states, in all but leased if none is named; answers how many. */
  purge(...states: JobState[] | [...JobState[], { group?: string | Buffer }]): Promise<number>;
  /** Tries dead jobs again; answers how many. */
  redrive(options?: { count?: number; ids?: string[]; in?: When; keepAttempts?: boolean; group?: string | Buffer }): Promise<number>;
  /** Hands out no jobs, or takes none (`adding`), or both. */
  pause(options?: { taking?: boolean; adding?: boolean; for?: Duration }): Promise<void>;
  resume(): Promise<void>;
  /** Makes or changes a schedule. Saying the same again changes nothing. */
  schedule(
    name: string,
    options: ScheduleOptions<Body> & ({ every: Duration; cron?: undefined } | { cron: string; every?: undefined }),
  ): Promise<{ result: 'created' | 'changed' | 'same'; next: Date | null }>;
  unschedule(name: string): Promise<boolean>;
  schedules(): Promise<string[]>;
  /** Any command of the server. */
  call(command: string, ...args: (string | number | Uint8Array)[]): Promise<any>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export class Job<Body = any> {
  private constructor();
  readonly id: string;
  readonly queue: string;
  readonly body: Body;
  /** The body as it came. */
  readonly raw: Buffer;
  /** 1 at the first delivery. */
  readonly attempt: number;
  /** Unix ms. */
  readonly due: number;
  /** How long after its due time it reached the worker, in ms. */
  readonly lateness: number;
  readonly token: string;
  /** The group of the job, null without one; bytes if it is not UTF-8. */
  readonly group: string | Buffer | null;
  /** The headers of the job: text, or bytes if a value is not UTF-8. */
  readonly meta: Record<string, string | Buffer>;
  /** The name of the schedule that made it. */
  readonly schedule?: string;
  /** Whether its lease was lost: another worker has the job, or will. */
  readonly lost: boolean;
  /** Aborts when the lease is lost, the timeout is over, or the worker gives the job back. */
  readonly signal: AbortSignal;
}

export type Handler<Body = any, Result = any> = (body: Body, job: Job<Body>) => Result | Promise<Result>;

export interface WorkerOptions<Body = any> {
  connection?: Connection;
  /** Handlers that run at the same time. Default: 1. */
  concurrency?: number;
  /** How long the server waits for a worker that has vanished. Running jobs are extended. Default: 60s. */
  lease?: Duration;
  /** What running handlers get when the worker closes. Default: 25s. */
  grace?: Duration;
  /** A handler that takes longer has failed, and its signal aborts. Default: none. */
  timeout?: Duration;
  /** Each call begins with the next queue, not always with the first. */
  rotate?: boolean;
  codec?: Codec<Body>;
  /** What the names of schedules begin with: `app:name`. Default: `app`. */
  app?: string;
  /** Remove schedules of this app that are declared no more. */
  sync?: boolean;
  /** Start by itself. Default: true. */
  autorun?: boolean;
  /** Close in order at SIGTERM and SIGINT, and end the process if it does not listen itself. Default: true. */
  signals?: boolean;
  /** Where failures are logged. Default: console. */
  logger?: { info?(text: string): void; warn?(text: string): void; error?(text: string): void } | null;
}

export interface WorkerCounters {
  started: number;
  done: number;
  failed: number;
  retried: number;
  snoozed: number;
  buried: number;
  givenBack: number;
  lost: number;
}

export interface WorkerEvents<Body = any, Result = any> {
  ready: [];
  active: [job: Job<Body>];
  completed: [job: Job<Body>, result: Result];
  failed: [job: Job<Body>, error: Error];
  lost: [job: Job<Body>];
  error: [error: Error];
  closing: [];
  closed: [];
}

type DeclareOptions<Body> = ScheduleOptions<Body> & { queue?: string };

export class Worker<Body = any, Result = any> extends EventEmitter implements AsyncDisposable {
  constructor(queues: string | string[], handler: Handler<Body, Result>, options?: WorkerOptions<Body>);
  readonly counters: WorkerCounters;
  /** As CLIENT LIST shows them. */
  readonly connectionIds: { taking?: number; telling?: number };
  /** Declares a job each `interval`, before the worker runs. Without a handler the worker's own has it. */
  every(interval: Duration, name: string, handler: Handler, options?: DeclareOptions<any>): this;
  every(interval: Duration, name: string, options?: DeclareOptions<any>): this;
  /** Declares a job at times of day. */
  cron(pattern: string, name: string, handler: Handler, options?: DeclareOptions<any>): this;
  cron(pattern: string, name: string, options?: DeclareOptions<any>): this;
  /** Works until the worker is closed. Fails with the server's error if that refuses it. */
  run(): Promise<void>;
  /**
   * Takes no more jobs, lets handlers end within the grace, gives back what is left, and tells all outcomes. Answers whether all
   * was told. A second call may shorten the grace.
   */
  close(grace?: Duration): Promise<boolean>;
  on<Event extends keyof WorkerEvents>(event: Event, listener: (...args: WorkerEvents<Body, Result>[Event]) => void): this;
  once<Event extends keyof WorkerEvents>(event: Event, listener: (...args: WorkerEvents<Body, Result>[Event]) => void): this;
  off<Event extends keyof WorkerEvents>(event: Event, listener: (...args: WorkerEvents<Body, Result>[Event]) => void): this;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Try the job again after this time instead of after its backoff. The attempt counts. */
export class Retry extends Error {
  constructor(after: When, reason?: string);
}
/** Deliver the job again after this time. The attempt does not count. */
export class Snooze extends Error {
  constructor(after: When);
}
/** Make the job dead now, whatever attempts are left. */
export class Bury extends Error {
  constructor(reason?: string);
}
/** Acknowledge the job, as if its handler had returned. */
export class Discard extends Error {
  constructor(message?: string);
}
/** An error of the server, or a lost connection. */
export class DelaydError extends Error {
  /** The error class: `EXISTS`, `FULL`, `PAUSED`, `OOM`, `ERR` …; `CONNECTION` for a lost connection. */
  readonly code: string;
}
