// The jobs of a project that have ended, of clusters that are gone, too: how they ended, what they had, used and cost.
import { queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'

import { answer, api, Refused, type Schemas } from '../api'
import { endings, type Ending } from '../data'
import { Pick, Text, useTyped } from '../parts/fields'
import { Command, Loaded, Older, Panel } from '../parts/panel'
import { Pill } from '../parts/state'
import { Table } from '../parts/table'
import { useTitle } from '../parts/title'
import { amounts, clock, mebibytes, percent, quoted, span } from '../words'

type Job = Schemas['Job']

/** Search is which jobs, as the address says. */
type Search = { cluster?: string; user?: string; state?: Ending }

const route = getRouteApi('/projects/$project/jobs')

/** days is how far back it is summed up what jobs had and used. */
const days = 30

const efficiencyQuery = (project: string) =>
  queryOptions({
    queryKey: ['efficiency', project],
    queryFn: () => {
      const since = new Date(Date.now() - days * 86_400_000).toISOString()
      return answer(api.GET('/v1/efficiency', { params: { query: { project, since, by: 'user' } } }))
    },
    staleTime: 0,
  })

/** ended says how a job has ended, if it is not as it should. */
function ended(j: Job): string {
  if (j.signal) return `signal ${j.signal}`
  return j.exit ? `exit ${j.exit}` : ''
}

export function History() {
  const { project } = route.useParams()
  const of = route.useSearch()
  useTitle(`Jobs of ${project}`)
  const navigate = useNavigate()
  const narrow = (to: { [K in keyof Search]: Search[K] | '' }) => {
    const search = (now: Search) => Object.fromEntries(Object.entries({ ...now, ...to }).filter(([, v]) => v)) as Search
    void navigate({ from: '/projects/$project/jobs', search, replace: true })
  }
  const [cluster, typeCluster] = useTyped(of.cluster ?? '', (v) => narrow({ cluster: v }))
  const [user, typeUser] = useTyped(of.user ?? '', (v) => narrow({ user: v }))
  const query = useInfiniteQuery({
    queryKey: ['history', project, of],
    queryFn: ({ pageParam }): Promise<{ items: Job[]; next?: string }> => {
      const { cluster, ...rest } = of
      const query = {
        project,
        ...rest,
        ...(cluster && { cluster: `${project}/${cluster}` }),
        ...(pageParam && { cursor: pageParam }),
      }
      return answer(api.GET('/v1/jobs', { params: { query: { ...query, limit: 100 } } })).catch((why: unknown) => {
        if (cluster && why instanceof Refused && why.problem.status === 404) return { items: [] } // no such cluster, or not yet
        throw why
      })
    },
    initialPageParam: '',
    getNextPageParam: (last) => last.next,
    staleTime: 0,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 10_000 : false), // jobs end without an event
  })
  const now = new Date()
  const words = ['muster jobs', of.cluster && quoted(of.cluster), `--project ${quoted(project)}`, '--since 365d']
  words.push(of.user && `--user ${quoted(of.user)}`, of.state && `--state ${of.state}`)
  return (
    <>
      <div className="head">
        <h1>Jobs of {project}</h1>
        <div className="actions">
          <Text label="Cluster" value={cluster} onChange={typeCluster} placeholder="any" />
          <Text label="User" value={user} onChange={typeUser} placeholder="anybody" />
          <Pick
            label="Ended as"
            value={of.state ?? ''}
            values={[['', 'anything'], ...endings.map((s) => [s, s] as const)]}
            onChange={(state) => narrow({ state: state as Ending | '' })}
          />
        </div>
      </div>
      <div className="stack">
        <Panel title="Ended, the last first" more={<Command text={words.filter(Boolean).join(' ')} />}>
          <Loaded query={query}>
            {(data) => (
              <Table
                label="Jobs that have ended"
                rows={data.pages.flatMap((page) => page.items)}
                of={(j) => `${j.cluster_id} ${j.number} ${j.ended_at}`} // one that was queued again ends more than once
                none="No such job has ended."
                columns={[
                  [
                    'Job',
                    (j) => (
                      <>
                        {j.id} <span className="dim">{j.name}</span>
                      </>
                    ),
                  ],
                  ['Cluster', (j) => j.cluster],
                  ['Who', (j) => j.user],
                  ['Queue', (j) => j.queue],
                  [
                    'Ended',
                    (j) => (
                      <>
                        <Pill phase={j.state} /> <span className="dim">{ended(j)}</span>
                      </>
                    ),
                  ],
                  ['At', (j) => j.ended_at && clock(new Date(j.ended_at), now)],
                  ['Took', (j) => (j.seconds ? span(j.seconds) : ''), 'right'],
                  ['Nodes', (j) => j.node_count, 'right'],
                  ['CPUs', (j) => j.cpus, 'right'],
                  ['CPUs used', (j) => percent(j.cpu_efficiency), 'right'],
                  ['Memory', (j) => (j.memory_mib ? mebibytes(j.memory_mib) : ''), 'right'],
                  ['Memory used', (j) => percent(j.memory_efficiency), 'right'],
                  ['Cost', (j) => j.cost && amounts(j.cost), 'right'],
                ]}
              />
            )}
          </Loaded>
          <Older query={query} />
        </Panel>
        <Panel
          title={`What jobs of the last ${days} days had, and used`}
          more={<Command text={`muster efficiency --project ${quoted(project)} --since ${days}d`} />}
        >
          <Loaded query={useQuery(efficiencyQuery(project))}>
            {({ items }) => (
              <Table
                label="What jobs had, and used"
                rows={items}
                of={(e) => e.user ?? ''}
                none="No job has ended."
                columns={[
                  ['Who', (e) => e.user],
                  ['Jobs', (e) => e.jobs, 'right'],
                  ['Failed', (e) => e.failed || '', 'right'],
                  ['CPU hours', (e) => e.cpu_hours.toFixed(1), 'right'],
                  ['CPUs used', (e) => percent(e.cpu_efficiency || undefined), 'right'],
                  ['Memory used', (e) => percent(e.memory_efficiency || undefined), 'right'],
                  ['GPU hours', (e) => (e.gpu_hours ? e.gpu_hours.toFixed(1) : ''), 'right'],
                  ['Cost', (e) => e.cost && amounts(e.cost), 'right'],
                ]}
              />
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  )
}
