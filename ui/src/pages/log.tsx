// Who does what now, and who did: SSH sessions and the audit log, as far as one may see them.
import { queryOptions, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Text, useTyped } from '../parts/fields'
import { Loaded, Older, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes, clock } from '../words'

type Session = Schemas['Session']

/** shown is how many sessions are listed. */
const shown = 200

const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => answer(api.GET('/v1/sessions', { params: { query: { limit: shown } } })),
  staleTime: 0,
  refetchInterval: 10_000, // they begin and end without an event
})

export function Sessions() {
  useTitle('SSH sessions')
  const [ending, setEnding] = useState<Session>()
  const query = useQuery(sessionsQuery)
  const acts = useQuery(siteQuery).data?.scope === 'all'
  return (
    <>
      <div className="head">
        <h1>SSH sessions</h1>
      </div>
      <Panel title="Open now">
        <Loaded query={query}>
          {(list) => (
            <Table
              label="SSH sessions"
              rows={list.items}
              of={(s) => s.id}
              columns={[
                ['Who', (s) => s.person],
                ['Where', (s) => `${s.project}/${s.place}`],
                ['What', (s) => s.what],
                ['From', (s) => s.remote, 'mono'],
                ['Since', (s) => <Ago at={s.began_at} />],
                ['Received', (s) => bytes(s.received), 'right'],
                ['Sent', (s) => bytes(s.sent), 'right'],
                ['', (s) => s.recorded && 'recorded'],
                [
                  '',
                  (s) =>
                    acts && (
                      <button type="button" className="btn quiet small" onClick={() => setEnding(s)}>
                        End
                      </button>
                    ),
                ],
              ]}
            />
          )}
        </Loaded>
        {query.data?.next && <footer>Only the first {shown} are listed.</footer>}
      </Panel>
      {ending && <End s={ending} onClose={() => setEnding(undefined)} />}
    </>
  )
}

function End({ s, onClose }: { s: Session; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <Ask
      title={`End the session of ${s.person}`}
      act="End it"
      bad
      command={`muster sessions end ${s.id}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/sessions/{session}', { params: { path: { session: s.id } } }))
        await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey })
      }}
      onClose={onClose}
    >
      <p className="dim">
        {s.what} on {s.project}/{s.place} ends now, with all others on the same connection. They may begin another.
      </p>
    </Ask>
  )
}

const route = getRouteApi('/audit')

export function Audit() {
  useTitle('Audit log')
  const { person = '' } = route.useSearch()
  const navigate = useNavigate()
  const [typed, type] = useTyped(person, (p) => void navigate({ to: '/audit', search: p ? { person: p } : {}, replace: true }))
  const query = useInfiniteQuery({
    queryKey: ['audit', person],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/v1/audit', {
          params: { query: { limit: 100, ...(person ? { person } : {}), ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (last) => last.next,
    staleTime: 0,
  })
  const now = new Date()
  return (
    <>
      <div className="head">
        <h1>Audit log</h1>
        <div className="actions">
          <Text label="Only of" value={typed} onChange={type} placeholder="everybody" />
        </div>
      </div>
      <Panel title="Newest first">
        <Loaded query={query}>
          {(data) => (
            <Table
              label="Audit log"
              rows={data.pages.flatMap((page) => page.items)}
              of={(e) => e.id}
              columns={[
                ['When', (e) => clock(new Date(e.at), now)],
                ['Who', (e) => e.person],
                ['What', (e) => e.action],
                ['Project', (e) => e.project],
                ['To', (e) => e.object, 'wrap'],
                ['Outcome', (e) => e.outcome],
                ['Door', (e) => e.door],
                ['From', (e) => e.remote, 'mono'],
              ]}
            />
          )}
        </Loaded>
        <Older query={query} />
      </Panel>
    </>
  )
}
