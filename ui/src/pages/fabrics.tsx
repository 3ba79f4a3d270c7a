// InfiniBand fabrics: who reaches whom, and which ports differ from what is wanted.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'

import { answer, api, type Schemas, whole } from '../api'
import { clustersQuery } from '../data'
import { Command, Facts, Loaded, Panel } from '../parts/panel'
import { Pill } from '../parts/state'
import { Listed, Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { count } from '../words'
import { Wiring } from './wiring'

/** often is how often it is asked again, in milliseconds: ports are read, and managers told, without an event. */
const often = 10_000

const fabricsQuery = queryOptions({
  queryKey: ['fabrics'],
  queryFn: () => whole((page) => api.GET('/v1/fabrics', { params: { query: page } })),
  staleTime: 0,
  refetchInterval: often,
})

export function Fabrics() {
  useTitle('Fabrics')
  return (
    <>
      <div className="head">
        <h1>Fabrics</h1>
      </div>
      <Panel title="Managed fabrics" more={<Command text="muster fabric add NAME --manager GUID" />}>
        <Loaded query={useQuery(fabricsQuery)}>
          {(all) => (
            <Table
              label="Fabrics"
              rows={all}
              of={(f) => f.name}
              columns={[
                [
                  'Fabric',
                  (f) => (
                    <Link to="/fabrics/$fabric" params={{ fabric: f.name }}>
                      {f.name}
                    </Link>
                  ),
                ],
                ['Phase', (f) => <Pill phase={f.phase} />],
                ['Manager', (f) => f.driver],
                ['Told', (f) => (f.applied === f.revision ? 'all' : `revision ${f.applied} of ${f.revision}`)],
                ['Read', (f) => f.seen_at && <Ago at={f.seen_at} />],
                ['Why', (f) => f.reason, 'wrap'],
              ]}
            />
          )}
        </Loaded>
      </Panel>
    </>
  )
}

const route = getRouteApi('/fabrics/$fabric')

const fabricQuery = (fabric: string) =>
  queryOptions({
    queryKey: ['fabric', fabric],
    queryFn: () => answer(api.GET('/v1/fabrics/{fabric}', { params: { path: { fabric } } })),
    staleTime: 0,
    refetchInterval: often,
  })

const diffQuery = (fabric: string) =>
  queryOptions({
    queryKey: ['fabric', fabric, 'diff'],
    queryFn: () => answer(api.GET('/v1/fabrics/{fabric}/diff', { params: { path: { fabric } } })),
    staleTime: 0,
    refetchInterval: often,
  })

const topologiesQuery = queryOptions({
  queryKey: ['topologies'],
  queryFn: () => answer(api.GET('/v1/topologies')),
  staleTime: 0,
})

export function Fabric() {
  const { fabric } = route.useParams()
  useTitle(fabric)
  return <Loaded query={useQuery(fabricQuery(fabric))}>{(f) => <Shown f={f} />}</Loaded>
}

/** differs says how a port differs from what is wanted. */
const differs = (d: Schemas['FabricDifference']) =>
  d.silent
    ? 'does not answer'
    : [d.surplus && `must not hold ${d.surplus.join(' ')}`, d.missing && `lacks ${d.missing.join(' ')}`]
        .filter(Boolean)
        .join('; ')

function Shown({ f }: { f: Schemas['Fabric'] }) {
  const diff = useQuery(diffQuery(f.name))
  const clusters = useQuery(clustersQuery).data
  const topology = useQuery(topologiesQuery).data?.items.find((t) => t.fabric === f.name)
  const leaves = topology?.leaves
  const differing = new Map(diff.data?.ports.map((d) => [d.port, d]))
  const nameOf = (p: Schemas['FabricPartition']) =>
    p.name ?? clusters?.find((c) => c.id === p.cluster)?.name ?? p.cluster ?? p.key
  const owner = (p: Schemas['FabricPartition']) => {
    const c = clusters?.find((one) => one.id === p.cluster)
    if (!c) return p.name ?? p.cluster
    return (
      <Link to="/projects/$project/clusters/$cluster" params={{ project: c.project, cluster: c.name }}>
        {c.project}/{c.name}
      </Link>
    )
  }
  const read = diff.data?.seen_at !== undefined
  /** seen is whether a partition's ports hold its key. */
  const seen = (p: Schemas['FabricPartition']) => {
    if (!read) return diff.data && 'not read yet'
    const differ = p.members.flatMap((m) => differing.get(m.port) ?? [])
    const lack = differ.filter((d) => d.missing?.some((key) => key.startsWith(p.key))).length
    const silent = differ.filter((d) => d.silent).length
    const leaving = p.members.filter((m) => m.leaving).length
    if (lack > 0) return <span className="t-bad">{lack} lack it</span>
    return [silent && `${silent} do not answer`, leaving && `${leaving} leave`].filter(Boolean).join(', ') || 'as wanted'
  }
  return (
    <>
      <div className="head">
        <div>
          <h1 className="line">
            {f.name} <Pill phase={f.phase} />
          </h1>
          <p className="dim">{f.reason}</p>
        </div>
      </div>
      <div className="cols">
        <div className="stack">
          {topology && topology.switches.length > 0 && (
            <Panel title="How it is cabled" beside={<span className="dim">{topology.summary}</span>}>
              <Wiring
                topology={topology}
                partitions={f.partitions
                  .filter((p) => !p.open)
                  .map((p) => ({ key: p.key, name: nameOf(p), ports: new Set(p.members.map((m) => m.port)) }))}
                differing={differing}
              />
            </Panel>
          )}
          <Panel title="Ports that differ" beside={<span className="dim">{`of ${count(f.ports.length, 'port')}`}</span>}>
            <Loaded query={diff}>
              {(d) => (
                <Table
                  label="Ports that differ"
                  rows={d.ports}
                  of={(p) => p.port}
                  none={d.seen_at ? 'None.' : 'They have not been read yet.'}
                  columns={[
                    ['Machine', (p) => p.machine, 'mono'],
                    ['Port', (p) => p.port, 'mono'],
                    ['How', differs, 'wrap'],
                  ]}
                />
              )}
            </Loaded>
          </Panel>
          <Panel title="Partitions">
            <Table
              label="Partitions"
              rows={f.partitions}
              of={(p) => p.key}
              columns={[
                ['Of', owner],
                ['Key', (p) => p.key, 'mono'],
                ['Ports', (p) => p.members.length, 'right'],
                ['Seen', seen],
                ['', (p) => (p.ending ? 'ends' : p.open ? 'open to all' : '')],
              ]}
            />
          </Panel>
          <Listed
            label="Leaf switches"
            rows={leaves}
            of={(l) => l.name}
            columns={[
              ['Leaf', (l) => l.name, 'mono'],
              ['Cables up', (l) => l.cables || '', 'right'],
              ['Machines', (l) => l.machines.join(' '), 'wrap'],
            ]}
          />
          <Listed
            label="Ports"
            rows={f.ports}
            of={(p) => p.port}
            columns={[
              ['Port', (p) => p.port, 'mono'],
              ['Machine', (p) => (p.machine ? p.machine + (p.assigned ? ', assigned' : '') : ''), 'mono'],
              ['Says it is', (p) => p.name],
              ['Answers', (p) => f.seen_at && (p.answers ? 'yes' : 'no')],
              ['Holds', (p) => p.entries.join(' '), 'wrap'],
              ['Room', (p) => p.capacity, 'right'],
            ]}
          />
        </div>
        <div className="stack">
          <Panel title="Subnet manager">
            <Facts
              of={[
                ['Driver', f.driver],
                ['Ports', f.managers.join(', ')],
                ['Wanted', `revision ${f.revision}`],
                ['Told', `revision ${f.applied}`],
                ['Read back', f.seen_at && `revision ${f.seen}`],
                ['Read', f.seen_at && <Ago at={f.seen_at} />],
              ]}
            />
          </Panel>
        </div>
      </div>
    </>
  )
}
