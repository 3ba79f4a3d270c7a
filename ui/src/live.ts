// News from the site. What has changed is fetched again, at most four times a second.
import { type DataTag, type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useSyncExternalStore } from 'react'

import { answer, api, type Event } from './api'
import { clustersQuery, getCluster, machinesQuery, siteQuery } from './data'
import type { News } from './live.worker'
import source from './live.worker.ts?sharedworker&url'

/** Live is whether what is shown is what is so: undefined until that is known. */
export type Live = { live: boolean | undefined; since: number; again: number; signedOut: boolean }

let live: Live = { live: undefined, since: Date.now(), again: 0, signedOut: false }
const listeners = new Set<() => void>()
const events = new Set<(e: Event) => void>()
let worker: { postMessage: (message: 'state' | 'again') => void } | undefined

/** again asks at once for a stream that is cut, as after somebody has signed in. */
export function again() {
  live = { ...live, signedOut: false }
  for (const hear of listeners) hear()
  worker?.postMessage('again')
}

/** renew asks for all again after somebody has signed in: whoever signed in before keeps what they see meanwhile. */
export async function renew(queries: QueryClient) {
  const before = queries.getQueryData(siteQuery.queryKey)?.identity
  const now = (await queries.fetchQuery({ ...siteQuery, staleTime: 0 })).identity
  await (before === undefined || before === now ? queries.invalidateQueries() : queries.resetQueries())
}

/** Change is what is known of a change: an event, or what was seen of a cluster without one. */
export type Change = Pick<Event, 'type' | 'project' | 'cluster' | 'cluster_id' | 'machine'>

/** concerns says whether what a query asks may be another one after a change. Lists of clusters are mended row by row. */
export function concerns(key: readonly unknown[], c: Change): boolean {
  const [what, of] = key
  switch (what) {
    case 'projects':
      return c.type.startsWith('project.')
    case 'quota':
      return c.type !== 'seen' && c.cluster_id !== undefined && of === c.project
    case 'cluster':
    case 'jobs':
      return of === `${c.project}/${c.cluster}`
    case 'plan':
    case 'calendar':
    case 'classes':
      return c.type.endsWith('.phase') || c.type === 'cluster.requested'
    case 'members':
      return c.type.startsWith('project.') && of === c.project
    case 'snapshots':
      return c.type.startsWith('snapshot.') || c.type === 'cluster.requested'
    case 'machine':
      return of === c.machine
    case 'changes':
      return c.type === 'benchmark.changed'
    case 'networks':
      return c.type === 'network.requested'
    case 'unknown':
      return c.type === 'machine.unknown' || c.type === 'machine.enrolled'
    case 'topologies':
      return c.type === 'topology.imported'
    case 'fabrics':
    case 'fabric':
      return c.type.startsWith('fabric.')
    case 'status':
      return c.machine !== undefined || c.type === 'site.alarm'
  }
  return false
}

/** few is how many rows of a list are asked for one by one; of more, the whole list is. */
const few = 4

/** mend brings those rows of a list up to date that have changed. */
async function mend<T>(
  queries: QueryClient,
  queryKey: DataTag<string[], T[], Error>,
  changed: Set<string>,
  idOf: (row: T) => string,
  get: (id: string) => Promise<T | undefined>,
) {
  if (changed.size === 0 || !queries.getQueryState(queryKey)) return
  if (changed.size > few) return queries.invalidateQueries({ queryKey })
  const rows = await Promise.all([...changed].map(get))
  const known = new Set(queries.getQueryData(queryKey)?.map(idOf))
  if (rows.some((row) => !row || !known.has(idOf(row)))) return queries.invalidateQueries({ queryKey }) // one has come or gone
  queries.setQueryData(queryKey, (all) => all?.map((old) => rows.find((row) => row && idOf(row) === idOf(old)) ?? old))
}

const lists = (queries: QueryClient, changes: Change[]) => [
  mend(
    queries,
    clustersQuery.queryKey,
    new Set(changes.flatMap((c) => c.cluster_id ?? [])),
    (c) => c.id,
    (id) =>
      answer(getCluster(id)).then(
        (c) => (c.phase === 'deleted' ? undefined : c),
        () => undefined,
      ),
  ),
  mend(
    queries,
    machinesQuery.queryKey,
    new Set(changes.flatMap((c) => c.machine ?? [])),
    (m) => m.name,
    (machine) => answer(api.GET('/v1/machines/{machine}', { params: { path: { machine } } })).catch(() => undefined),
  ),
]

type Trusted = {
  createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => URL }
}

const shared = typeof SharedWorker !== 'undefined'

/** name is that of the worker, and of its channel: another build has another worker, and so has a tab that shares none. */
const name = shared ? source : crypto.randomUUID()

/** start runs the worker: one for all tabs, where the browser has such. The page's policy lets this script through, and no other. */
function start() {
  const trusted = (globalThis as { trustedTypes?: Trusted }).trustedTypes
  const policy = trusted?.createPolicy('muster', {
    createScriptURL: (url) => {
      if (url !== source) throw new TypeError(url)
      return url
    },
  })
  const script = policy ? policy.createScriptURL(source) : source
  if (!shared) return new Worker(script, { type: 'module', name })
  const worker = new SharedWorker(script, { type: 'module', name })
  worker.port.start()
  return worker.port
}

/** follow begins to hear of news; call it once a page. */
export function follow(queries: QueryClient) {
  let changed: Change[] = []
  let due = false
  // The next look begins when the one before has come to its end: one that is asked again all the time would never arrive.
  const refetch = async () => {
    while (changed.length > 0) {
      const these = changed
      changed = []
      await Promise.all([
        queries.invalidateQueries({ predicate: (q) => these.some((c) => concerns(q.queryKey, c)) }),
        ...lists(queries, these),
      ])
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
    due = false
  }
  const tabs = new BroadcastChannel(name)
  tabs.addEventListener('message', ({ data: news }: MessageEvent<News>) => {
    if (news.kind === 'event' || news.kind === 'seen') {
      changed.push(news.kind === 'event' ? news.event : { type: 'seen', ...news.of })
      if (!due) {
        due = true
        void refetch()
      }
      if (news.kind === 'event') for (const hear of events) hear(news.event)
      return
    }
    const before = live
    live = {
      live: news.kind === 'live',
      signedOut: news.kind === 'signed-out',
      since: news.kind === 'cut' ? news.since : before.since,
      again: news.kind === 'cut' ? news.again : 0,
    }
    if (news.kind === 'live' && before.signedOut) renew(queries).catch(() => {}) // as another tab has signed in
    else if (news.kind === 'live')
      // what was asked before may have changed since
      void queries.invalidateQueries({ predicate: (q) => q.state.dataUpdatedAt < news.since })
    for (const hear of listeners) hear()
  })
  worker = start()
  worker.postMessage('state')
}

const subscribe = (hear: () => void) => {
  listeners.add(hear)
  return () => listeners.delete(hear)
}

/** useLive is whether what is shown is what is so. */
export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => live)
}

/** useEvents calls hear with each event. */
export function useEvents(hear: (e: Event) => void) {
  useEffect(() => {
    events.add(hear)
    return () => {
      events.delete(hear)
    }
  }, [hear])
}

/** useRefresh fetches again what is on screen. */
export function useRefresh() {
  const queries = useQueryClient()
  return useCallback(() => void queries.invalidateQueries(), [queries])
}
