import type { Codec, Handler, Meta } from './index.js';

export interface InlineOptions<Body = any> {
  id?: string;
  queue?: string;
  attempt?: number;
  group?: string | Uint8Array;
  meta?: Meta;
  codec?: Codec<Body>;
}

export interface InlineOutcome<Result = any> {
  outcome: 'done' | 'failed' | 'retried' | 'snoozed' | 'buried';
  /** What the handler returned. */
  result?: Result;
  /** What it threw. */
  error?: any;
  /** When a job that was retried or snoozed comes again, as the server is told. */
  after?: string;
}

/** Calls a handler at once, without a server, and answers what a worker would tell. */
export function runInline<Body, Result>(handler: Handler<Body, Result>, body?: Body, options?: InlineOptions<Body>): Promise<InlineOutcome<Result>>;
