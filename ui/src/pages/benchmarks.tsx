// Runs of benchmarks: what they have measured, and what has become slower since.
import { queryOptions, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas, whole } from '../api'
import { clustersQuery, may, operates, projectsQuery, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Choice, Pick, Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Command, Facts, Loaded, Older, Panel, Wrong } from '../parts/panel'
import { Pill } from '../parts/state'
import { Listed, Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { count, quoted, span } from '../words'

type Run = Schemas['Benchmark']
type Change = Schemas['BenchmarkChange']

/** often is how often what goes on is asked again, in milliseconds: it goes on without an event. */
const often = 5_000

const changesQuery = queryOptions({
  queryKey: ['changes'],
  queryFn: () => answer(api.GET('/v1/changes')),
  staleTime: 0,
})

const suitesQuery = queryOptions({
  queryKey: ['suites'],
  queryFn: () => whole((page) => api.GET('/v1/suites', { params: { query: page } })),
})

/** state is how a run stands: its outcome, once it has ended. */
const state = (r: Run) => r.outcome ?? r.phase

/** three is a number with the three digits that count. */
const three = (n: number) => Number(n.toPrecision(3))

export function Benchmarks() {
  useTitle('Benchmarks')
  const projects = useQuery(projectsQuery).data
  const clusters = useQuery(clustersQuery).data?.filter((c) => may(projects, c.project, 'enter')) ?? []
  const [asked, setAsked] = useState<'run' | Run | Change>()
  const close = () => setAsked(undefined)
  const runs = useInfiniteQuery({
    queryKey: ['benchmarks'],
    queryFn: ({ pageParam }) =>
      answer(api.GET('/v1/benchmarks', { params: { query: { limit: 50, ...(pageParam && { cursor: pageParam }) } } })),
    initialPageParam: '',
    getNextPageParam: (last) => last.next,
    staleTime: 0,
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? often : false),
  })
  const site = useQuery(siteQuery).data
  const mine = (r: Run) => r.account === site?.identity && may(projects, r.project, 'own')
  const open = (r: Run) => r.phase !== 'ended' && !r.cancel && (mine(r) || may(projects, r.project, 'govern'))
  const accepts = (c: Change) => (c.cluster ? may(projects, c.project, 'own') : operates(site))
  return (
    <>
      <div className="head">
        <h1>Benchmarks</h1>
        {clusters.length > 0 && (
          <div className="actions">
            <button type="button" className="btn main" onClick={() => setAsked('run')}>
              <Icon name="plus" /> Run a suite
            </button>
          </div>
        )}
      </div>
      <div className="stack">
        <Panel title="What has changed" more={<Command text="muster bench changes" />}>
          <Loaded query={useQuery(changesQuery)}>
            {({ items }) => (
              <Table
                label="What has changed"
                rows={items}
                of={(c) => c.id}
                none="Nothing that runs have measured has changed."
                columns={[
                  ['When', (c) => <Ago at={c.at} />],
                  ['Of', (c) => c.cluster ?? c.machine ?? c.class],
                  ['What', (c) => <span className={c.worse && !c.accepted ? 't-bad' : undefined}>{c.text}</span>, 'wrap'],
                  ['What else changed', (c) => c.causes?.join('; '), 'wrap'],
                  [
                    '',
                    (c) =>
                      c.accepted
                        ? `accepted by ${c.accepted}`
                        : c.worse &&
                          accepts(c) && (
                            <button type="button" className="btn quiet small" onClick={() => setAsked(c)}>
                              Accept<span className="sr"> {c.text}</span>
                            </button>
                          ),
                  ],
                ]}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Runs, the newest first">
          <Loaded query={runs}>
            {({ pages }) => (
              <Table
                label="Runs"
                rows={pages.flatMap((page) => page.items)}
                of={(r) => r.id}
                none="Nothing has been measured yet."
                columns={[
                  [
                    'Suite',
                    (r) => (
                      <Link to="/benchmarks/$benchmark" params={{ benchmark: r.id }}>
                        {r.suite}
                      </Link>
                    ),
                  ],
                  ['Cluster', (r) => `${r.project}/${r.cluster}`],
                  ['Who', (r) => r.account],
                  ['Nodes', (r) => r.on.nodes, 'right'],
                  ['Rounds', (r) => `${r.rounds_ended} of ${r.rounds}`, 'right'],
                  ['State', (r) => <Pill phase={state(r)} />],
                  ['Begun', (r) => <Ago at={r.created_at} />],
                  ['Why', (r) => r.reason, 'wrap'],
                  [
                    '',
                    (r) =>
                      open(r) && (
                        <button type="button" className="btn quiet small" onClick={() => setAsked(r)}>
                          Cancel
                          <span className="sr">
                            {' '}
                            {r.suite} on {r.cluster}
                          </span>
                        </button>
                      ),
                  ],
                ]}
              />
            )}
          </Loaded>
          <Older query={runs} />
        </Panel>
      </div>
      {asked === 'run' && <Begin clusters={clusters} onClose={close} />}
      {typeof asked === 'object' &&
        ('suite' in asked ? <Cancel r={asked} onClose={close} /> : <Accept c={asked} onClose={close} />)}
    </>
  )
}

/** Place is a cluster, by PROJECT/NAME, and a queue of it; '': the first. */
type Place = { cluster: string; queue: string }

const refOf = (c: Schemas['Cluster']) => `${c.project}/${c.name}`

/** Where asks for a place; for the queue, where the cluster has several. */
function Where(props: { label: string; clusters: Schemas['Cluster'][]; at: Place; onChange: (at: Place) => void }) {
  const { label, clusters, at, onChange } = props
  const queues = clusters.find((c) => refOf(c) === at.cluster)?.spec.queues?.map((q) => q.name) ?? []
  return (
    <>
      <Pick
        label={label}
        value={at.cluster}
        values={clusters.map((c) => [refOf(c), refOf(c)] as const)}
        onChange={(cluster) => onChange({ cluster, queue: '' })}
      />
      {queues.length > 1 && (
        <Pick
          label={`Queue of ${at.cluster}`}
          value={at.queue || queues[0]!}
          values={queues.map((q) => [q, q] as const)}
          onChange={(queue) => onChange({ ...at, queue })}
        />
      )}
    </>
  )
}

/** ways are how a suite is run: as one run, in turns with another, or repeated. */
const ways = [
  ['once', 'Once'],
  ['beside', 'Beside another'],
  ['repeated', 'Repeated'],
] as const

function Begin({ clusters, onClose }: { clusters: Schemas['Cluster'][]; onClose: () => void }) {
  const queries = useQueryClient()
  const suites = useQuery(suitesQuery)
  const first = clusters[0] ? refOf(clusters[0]) : ''
  const [at, setAt] = useState<Place>({ cluster: first, queue: '' })
  const [beside, setBeside] = useState<Place>({ cluster: clusters[1] ? refOf(clusters[1]) : first, queue: '' })
  const [suite, setSuite] = useState('quick')
  const [way, setWay] = useState<(typeof ways)[number][0]>('once')
  const [every, setEvery] = useState('1d')
  const [shortened, setShortened] = useState(false)
  const chosen = suites.data?.find((s) => s.name === suite)
  const brief = shortened && way !== 'repeated'
  const flags = (...of: [name: string, value: string][]) =>
    of.flatMap(([name, value]) => (value ? [` --${name} ${quoted(value)}`] : [])).join('')
  const commands = {
    once: () => `run ${at.cluster}${flags(['suite', suite], ['queue', at.queue])}`,
    beside: () =>
      `compare ${at.cluster} ${beside.cluster}${flags(['suite', suite], ['queue', at.queue], ['queue-b', beside.queue])}`,
    repeated: () => `watch ${at.cluster}${flags(['every', every], ['suite', suite], ['queue', at.queue])}`,
  }
  return (
    <Ask
      title="Run a suite"
      act="Run"
      command={`muster bench ${commands[way]()}${brief ? ' --brief' : ''}`}
      onAct={async () => {
        const body = {
          suite,
          brief,
          ...(at.queue && { queue: at.queue }),
          ...(way === 'beside' && {
            compare_with: beside.cluster,
            ...(beside.queue && { compare_with_queue: beside.queue }),
          }),
          ...(way === 'repeated' && { every }),
        }
        await answer(api.POST('/v1/clusters/{cluster}/benchmarks', { params: { path: { cluster: at.cluster } }, body }))
        await queries.invalidateQueries({ queryKey: ['benchmarks'] })
      }}
      onClose={onClose}
    >
      {suites.error && <Wrong why={suites.error} />}
      <Where label="Cluster" clusters={clusters} at={at} onChange={setAt} />
      <Pick
        label="Suite"
        value={suite}
        values={suites.data?.map((s) => [s.name, s.single ? `${s.name}, alone` : s.name] as const) ?? []}
        onChange={setSuite}
        hint={chosen?.about}
      />
      <Choice label="How" value={way} values={ways} onChange={setWay} />
      {way === 'beside' && <Where label="Beside" clusters={clusters} at={beside} onChange={setBeside} />}
      {way === 'repeated' && (
        <Text label="Every" value={every} onChange={setEvery} hint="As 12h, 1d or 7d, while its nodes are free." required />
      )}
      {way !== 'repeated' && (
        <label className="line">
          <input type="checkbox" checked={shortened} onChange={(e) => setShortened(e.target.checked)} />
          Shortened, to see that all of it runs
        </label>
      )}
      <p className="dim">It runs as jobs of yours, on all nodes of a queue.</p>
    </Ask>
  )
}

function Cancel({ r, onClose }: { r: Run; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <Ask
      title={`End ${r.suite} on ${r.cluster}`}
      act="End the run"
      bad
      command={`muster bench cancel ${r.id}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/benchmarks/{benchmark}', { params: { path: { benchmark: r.id } } }))
        await queries.invalidateQueries({ queryKey: ['benchmarks'] })
      }}
      onClose={onClose}
    >
      <p className="dim">What it has measured is kept.{r.every && ' It is not repeated any more.'}</p>
    </Ask>
  )
}

function Accept({ c, onClose }: { c: Change; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <Ask
      title="Accept this change"
      act="Accept"
      command={`muster bench accept ${c.id}`}
      onAct={async () => {
        await answer(api.POST('/v1/changes/{change}/accept', { params: { path: { change: c.id } } }))
        await Promise.all([changesQuery.queryKey, ['status']].map((queryKey) => queries.invalidateQueries({ queryKey })))
      }}
      onClose={onClose}
    >
      <p>{c.text}</p>
      <p className="dim">It is no alarm any more. Values are compared with the new ones from now on.</p>
    </Ask>
  )
}

const route = getRouteApi('/benchmarks/$benchmark')

const runQuery = (benchmark: string) =>
  queryOptions({
    queryKey: ['benchmark', benchmark],
    queryFn: () => answer(api.GET('/v1/benchmarks/{benchmark}', { params: { path: { benchmark } } })),
    staleTime: 0,
    refetchInterval: ({ state }) => (state.data?.phase === 'ended' ? false : often),
  })

const seriesQuery = (benchmark: string, ended: number) =>
  queryOptions({
    queryKey: ['benchmark', benchmark, 'series', ended],
    queryFn: () =>
      whole((page) => api.GET('/v1/benchmarks/{benchmark}/series', { params: { path: { benchmark }, query: page } })),
    placeholderData: (before: Schemas['BenchmarkSeries'][] | undefined) => before, // while those of one more round come
  })

const comparisonQuery = (benchmark: string, ended: number) =>
  queryOptions({
    queryKey: ['benchmark', benchmark, 'comparison', ended],
    queryFn: () => answer(api.GET('/v1/benchmarks/{benchmark}/comparison', { params: { path: { benchmark } } })),
    placeholderData: (before: Schemas['BenchmarkComparison'] | undefined) => before,
  })

/** told is a step's name with its parameters, and a quantity's with its labels: "osu-latency size=8". */
const told = (name: string, by: Record<string, string> | undefined) =>
  [name, ...Object.entries(by ?? {}).map(([k, v]) => `${k}=${v}`)].join(' ')

export function Benchmark() {
  const { benchmark } = route.useParams()
  useTitle('Benchmark')
  return <Loaded query={useQuery(runQuery(benchmark))}>{(r) => <Shown r={r} />}</Loaded>
}

function Shown({ r }: { r: Run }) {
  return (
    <>
      <div className="head">
        <div>
          <h1 className="line">
            {r.suite} on {r.cluster} <Pill phase={state(r)} />
          </h1>
          <p className="dim">{r.reason}</p>
        </div>
      </div>
      <div className="cols">
        <div className="stack">
          {r.cautions && r.cautions.length > 0 && <div className="note">{r.cautions.join('; ')}</div>}
          <Listed
            label="What did not go well"
            rows={r.problems}
            of={(s) => `${s.round} ${s.step}`}
            columns={[
              ['Round', (s) => s.round + 1, 'right'],
              ['What', (s) => told(s.recipe, s.parameters)],
              ['State', (s) => s.state],
              ['Why', (s) => s.reason, 'wrap'],
            ]}
          />
          {r.peer && <Compared r={r} />}
          <Panel title="Measured" more={<Command text={`muster bench show ${r.id}`} />}>
            <Loaded query={useQuery(seriesQuery(r.id, r.rounds_ended))}>
              {(all) => (
                <Table
                  label="Measured"
                  rows={all}
                  of={(s) => `${s.step} ${told(s.quantity, s.labels)}`}
                  none="Nothing yet."
                  columns={[
                    ['What', (s) => told(s.recipe, s.parameters)],
                    ['Quantity', (s) => told(s.quantity, s.labels)],
                    ['Median', (s) => three(s.median), 'right'],
                    ['Unit', (s) => s.unit],
                    ['95 % interval', (s) => interval(s.interval), 'right'],
                    ['Least', (s) => three(s.min), 'right'],
                    ['Most', (s) => three(s.max), 'right'],
                    ['Rounds', (s) => s.n, 'right'],
                    ['Better', (s) => s.better],
                  ]}
                />
              )}
            </Loaded>
          </Panel>
        </div>
        <div className="stack">
          <Panel title="About">
            <Facts
              of={[
                ['Cluster', `${r.project}/${r.cluster}`],
                ['Queue', r.queue],
                ['On', `${count(r.on.nodes, 'node')} of ${count(r.on.cores, 'core')}`],
                ['Who', r.account],
                ['Begun', <Ago at={r.created_at} />],
                ['Rounds', `${r.rounds_ended} of ${r.rounds}`],
                ['Of those not counted', r.broken || ''],
                ['Now', r.now && told(r.now.recipe ?? r.now.phase, r.now.parameters)],
                ['Left, about', r.left_seconds && span(r.left_seconds)],
                ['Repeated', r.every && `every ${r.every}`],
                ['', r.brief && 'Shortened: its values count in no history.'],
              ]}
            />
          </Panel>
        </div>
      </div>
    </>
  )
}

/** interval is where a value is in 95 of 100 cases. */
const interval = (of: Schemas['Interval'] | undefined) => of && `${three(of.low)} to ${three(of.high)}`

/** Compared is a run beside the one that is done in turns with it. */
function Compared({ r }: { r: Run }) {
  return (
    <Panel title="Beside the other run" more={<Command text={`muster bench compare --runs ${r.id} ${r.peer}`} />}>
      <Loaded query={useQuery(comparisonQuery(r.id, r.rounds_ended))}>
        {({ a, b, quantities }) => (
          <>
            <p className="in dim">
              A is this run, on {a.cluster}, queue {a.queue}. B is{' '}
              <Link to="/benchmarks/$benchmark" params={{ benchmark: b.id }}>
                the other
              </Link>
              , on {b.cluster}, queue {b.queue}.
            </p>
            <Table
              label="Beside the other run"
              rows={quantities}
              of={(q) => `${told(q.recipe, q.parameters)} ${told(q.quantity, q.labels)}`}
              none="Nothing yet."
              columns={[
                ['What', (q) => told(q.recipe, q.parameters)],
                ['Quantity', (q) => told(q.quantity, q.labels)],
                ['A', (q) => (q.n ? three(q.a) : ''), 'right'],
                ['B', (q) => (q.n ? three(q.b) : ''), 'right'],
                ['Unit', (q) => q.unit],
                ['B/A', (q) => (q.n ? three(q.ratio) : ''), 'right'],
                ['95 % interval', (q) => interval(q.interval), 'right'],
                ['Pairs', (q) => q.n, 'right'],
                [
                  'Verdict',
                  (q) => [q.verdict, q.better && `${q.better.toUpperCase()} is better`, q.reason].filter(Boolean).join('; '),
                  'wrap',
                ],
              ]}
            />
          </>
        )}
      </Loaded>
    </Panel>
  )
}
