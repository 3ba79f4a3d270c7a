// A cluster: what it is waiting for, its nodes, its jobs, its events.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Cluster as ClusterView, type Node, type Schemas } from '../api'
import { clusterQuery, may, projectsQuery } from '../data'
import { Feed } from '../parts/feed'
import { Icon } from '../parts/icon'
import { Command, Facts, Loaded, Panel, Wrong } from '../parts/panel'
import { Marks, markOf, Pill, queuesOf } from '../parts/state'
import { Timeline } from '../parts/timeline'
import { useTitle } from '../parts/title'
import { Table } from '../parts/table'
import { Ago, Until } from '../parts/time'
import { bytes, count, money } from '../words'
import { Acts } from './acts'
import { why } from './clusters'
import { Jobs } from './jobs'

const route = getRouteApi('/projects/$project/clusters/$cluster')

export function Cluster() {
  const { project, cluster } = route.useParams()
  const ref = `${project}/${cluster}`
  useTitle(cluster)
  return <Loaded query={useQuery(clusterQuery(ref))}>{(c) => <Shown c={c} />}</Loaded>
}

function Shown({ c }: { c: ClusterView }) {
  const ref = `${c.project}/${c.name}`
  const projects = useQuery(projectsQuery).data
  const enter = may(projects, c.project, 'enter')
  return (
    <>
      <div className="head">
        <div>
          <h1 className="line">
            {c.name} <Pill phase={c.phase} />
          </h1>
          <p className="dim">{why(c)}</p>
          <div className="meta">
            {enter && (
              <>
                <Link className="btn small" {...terminalOf(c)}>
                  <Icon name="terminal" /> Terminal
                </Link>
                <Link
                  className="btn small"
                  to="/projects/$project/clusters/$cluster/files"
                  params={{ project: c.project, cluster: c.name }}
                >
                  <Icon name="folder" /> Files
                </Link>
                <Command text={`muster ssh ${ref}`} />
              </>
            )}
            {queuesOf(c).map((q) => (
              <span className="line" key={q.name}>
                <Marks nodes={q.nodes} /> {q.name}
              </span>
            ))}
          </div>
        </div>
        {may(projects, c.project, 'own') && <Acts c={c} />}
      </div>
      <div className="cols">
        <div className="stack">
          {c.rollout && (
            <div className={c.rollout.stopped ? 'note bad' : 'note'} role="status">
              <span className="grow">
                Rollout to {c.rollout.to}: {c.rollout.done} of {count(c.rollout.total, 'node')}.
                {c.rollout.draining && ` It waits for jobs on ${c.rollout.draining.join(', ')}.`}
                {c.rollout.stopped && ` It has stopped: ${c.rollout.stopped}.`}
              </span>
            </div>
          )}
          <Timeline c={c} />
          <Nodes c={c} enter={enter} />
          <Jobs c={c} enter={enter} />
          <Panel title="Events">
            <Feed project={c.project} cluster={c.name} />
          </Panel>
        </div>
        <div className="stack">
          {c.cost && <Cost c={c} />}
          <About c={c} />
          {c.apps && c.apps.length > 0 && <Apps c={c} enter={enter} />}
        </div>
      </div>
    </>
  )
}

/** terminalOf is where a terminal on a cluster is: on its head, or on a node. */
const terminalOf = (c: ClusterView, node?: string) => ({
  to: '/projects/$project/clusters/$cluster/terminal' as const,
  params: { project: c.project, cluster: c.name },
  search: node ? { node } : {},
})

function Nodes({ c, enter }: { c: ClusterView; enter: boolean }) {
  const failing = (n: Node) => n.checks?.find((k) => !k.ok)
  return (
    <Panel title="Nodes">
      <Table
        label="Nodes"
        rows={c.nodes}
        of={(n) => n.id}
        columns={[
          [
            'Node',
            (n) => (
              <span className="line">
                <i className={`m ${markOf(n).mark}`} aria-hidden="true" />
                {enter ? (
                  <Link
                    className="mono"
                    title={`Terminal on ${n.name}`}
                    {...terminalOf(c, n.role === 'head' ? undefined : n.name)}
                  >
                    {n.name}
                  </Link>
                ) : (
                  <span className="mono">{n.name}</span>
                )}
              </span>
            ),
          ],
          ['Phase', (n) => n.phase],
          ['Queue', (n) => n.queue ?? n.role],
          ['Machine', (n) => n.machine, 'mono'],
          ['CPUs', (n) => n.facts.cpus, 'right'],
          ['Jobs', (n) => n.scheduler?.jobs || '', 'right'],
          ['Since', (n) => <Ago at={n.since} />],
          ['Note', (n) => n.reason ?? (failing(n) && `${failing(n)?.name}: ${failing(n)?.text ?? 'fails'}`), 'wrap'],
        ]}
      />
    </Panel>
  )
}

function Cost({ c }: { c: ClusterView }) {
  const cost = money(c.cost ?? '')
  const perHour = c.per_hour ? money(c.per_hour) : undefined
  return (
    <Panel
      title="Cost"
      more={
        <Link to="/projects/$project/cost/$cluster" params={{ project: c.project, cluster: c.id }}>
          By node
        </Link>
      }
    >
      <div className="in line gap-20">
        <div className="big">
          <b>
            {cost.number} <small>{cost.currency}</small>
          </b>
          <span>so far</span>
        </div>
        {perHour && (
          <div className="big">
            <b>
              {perHour.number} <small>{perHour.currency}/h</small>
            </b>
            <span>now</span>
          </div>
        )}
      </div>
    </Panel>
  )
}

function Apps({ c, enter }: { c: ClusterView; enter: boolean }) {
  const [wrong, setWrong] = useState<Error>()
  const open = async (app: string) => {
    const page = window.open('about:blank') // at once, or the browser takes it for an advertisement
    try {
      const opened = await answer(
        api.POST('/v1/clusters/{cluster}/apps/{app}/open', { params: { path: { cluster: c.id, app } } }),
      )
      if (!page) throw new Error('The browser opens no window. Allow it for this address.')
      if (!/^https?:$/.test(new URL(opened.url).protocol)) throw new Error('This is no address of a page.')
      page.opener = null
      page.location.href = opened.url
    } catch (why) {
      page?.close()
      setWrong(why as Error)
    }
  }
  return (
    <Panel title="Apps">
      <div className="in stack gap-12">
        {c.apps?.map((a) => (
          <div className="line" key={a.name}>
            <Icon name="open" />
            <b>{a.name}</b>{' '}
            <span className="dim grow">
              {a.node}, port {a.port}
            </span>
            {enter && a.url && (
              <button type="button" className="btn small" onClick={() => void open(a.name)}>
                Open
              </button>
            )}
          </div>
        ))}
      </div>
      {wrong && <Wrong why={wrong} />}
    </Panel>
  )
}

function About({ c }: { c: ClusterView }) {
  const rows: [string, React.ReactNode][] = [
    [
      'Lease',
      c.lease.ends_at ? (
        <>
          ends in <Until at={c.lease.ends_at} />
        </>
      ) : (
        'no end'
      ),
    ],
    [
      'Image',
      <>
        {c.spec.image} <code>{c.image.replace('sha256:', '').slice(0, 8)}</code>
      </>,
    ],
    ['/home', c.home ? `${bytes(c.home.used)} of ${bytes(c.home.size)}` : undefined],
    ['InfiniBand keys', c.keys?.map((k: Schemas['ClusterKey']) => `${k.fabric} ${k.key}`).join(', ')],
    ['Made by', c.created_by],
    ['Changes so far', c.generation],
  ]
  return (
    <Panel
      title="About"
      more={
        <Link to="/projects/$project/clusters/$cluster/file" params={{ project: c.project, cluster: c.name }}>
          Cluster file
        </Link>
      }
    >
      <Facts of={rows} />
    </Panel>
  )
}
