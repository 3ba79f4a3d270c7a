// Events as they happen, the newest first.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useState } from 'react'

import { answer, api, type Event, type Schemas } from '../api'
import { useEvents } from '../live'
import { clock } from '../words'
import { Loaded } from './panel'
import { useNow } from './time'

/** shown is how many events a feed has. */
const shown = 12

/** told is what an event tells, with the node that it is of if that stands nowhere else. */
const told = (e: Event, named: boolean) => [named && e.node, e.phase && `${e.phase}:`, e.text].filter(Boolean).join(' ')

/** Feed shows events of a project, or of a cluster of it. */
export function Feed({ project, cluster }: { project: string; cluster?: string }) {
  const queries = useQueryClient()
  const key = ['events', project, cluster ?? '']
  const [fresh, setFresh] = useState(0)
  const concerned = (e: Event) => e.project === project && (cluster === undefined || e.cluster === cluster)
  const query = useQuery({
    queryKey: key,
    staleTime: 0, // it hears events only while it is shown
    queryFn: async () => {
      const query = { newest: true, limit: shown }
      const list = await answer<string | Schemas['ListEvent']>(
        cluster === undefined
          ? api.GET('/v1/events', { params: { query: { ...query, project } } })
          : api.GET('/v1/clusters/{cluster}/events', { params: { query, path: { cluster: `${project}/${cluster}` } } }),
      )
      return typeof list === 'string' ? [] : list.items // text is a stream's
    },
  })
  useEvents(
    useCallback(
      (e: Event) => {
        if (!concerned(e)) return
        setFresh(e.seq)
        queries.setQueryData<Event[]>(key, (all) => all && [e, ...all.filter((o) => o.seq !== e.seq)].slice(0, shown))
      },
      [project, cluster],
    ),
  )
  const now = new Date(useNow())
  return (
    <Loaded query={query}>
      {(events) => (
        <div className="in feed" role="log" aria-live="off" aria-label="Events">
          {events.length === 0 && <span className="faint">Nothing has happened yet.</span>}
          {events.map((e) => (
            <div key={e.seq} style={{ display: 'contents' }}>
              <time dateTime={e.at}>{clock(new Date(e.at), now)}</time>
              <span className="of clip">{(cluster === undefined ? e.cluster : e.node) || e.machine || ''}</span>
              <span className={e.seq === fresh ? 'new' : undefined}>{told(e, cluster === undefined)}</span>
            </div>
          ))}
        </div>
      )}
    </Loaded>
  )
}
