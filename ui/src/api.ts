// The API, as the console asks it: by types that are made from its OpenAPI document, with the cookie that the browser keeps.
import createClient from 'openapi-fetch'

import type { components, paths } from './api.gen'

export type Schemas = components['schemas']
export type Cluster = Schemas['Cluster']
export type Node = Schemas['Node']
export type Event = Schemas['Event']
export type Problem = Schemas['Problem']

export const api = createClient<paths>()

/** Refused is an answer that refuses: what the API says is wrong. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail)
  }
}

/** NoAnswer says that the controller could not be reached. */
export class NoAnswer extends Error {}

let skew = 0

/** clockSkew is how far the controller's clock is ahead of the browser's, in milliseconds: to the second. */
export const clockSkew = () => (Math.abs(skew) < 2000 ? 0 : skew)

/** answer is what the API answers. It throws Refused or NoAnswer. */
export async function answer<T>(request: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<NonNullable<T>> {
  const got = await request.catch((why: unknown) => {
    throw new NoAnswer(String(why))
  })
  const date = Date.parse(got.response.headers.get('Date') ?? '')
  if (date) skew = date - Date.now()
  if (got.response.ok) return got.data as NonNullable<T>
  const told = got.error as Partial<Problem> | undefined
  throw new Refused({
    title: got.response.statusText,
    status: got.response.status,
    code: 'internal',
    detail: `the controller answered ${got.response.status}`,
    ...told,
  })
}

/** Page is the part of a query that says which page of a list. */
export type Page = { limit: number; cursor?: string }

/** whole is all of a list, page after page. */
export async function whole<T>(
  ask: (page: Page) => Promise<{ data?: { items: T[]; next?: string }; error?: unknown; response: Response }>,
): Promise<T[]> {
  const all: T[] = []
  for (let page: Page = { limit: 1000 }; ;) {
    const part = await answer(ask(page))
    all.push(...part.items)
    if (!part.next) return all
    page = { ...page, cursor: part.next }
  }
}

/** once is the part of a request that has it carried out once, however often it is sent with a key; without one it is a dry run's. */
export const once = (key?: string) => (key ? { header: { 'Idempotency-Key': key } } : {})
