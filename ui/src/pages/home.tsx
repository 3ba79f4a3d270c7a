// Home of a project: what there is, what each does and waits for, what it costs, what is held of the quota.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'

import type { Schemas } from '../api'
import { clustersQuery, projectsQuery, quotaQuery } from '../data'
import { Feed } from '../parts/feed'
import { Loaded, Panel } from '../parts/panel'
import { useTitle } from '../parts/title'
import { count, money, span } from '../words'
import { List, NewCluster } from './clusters'
import { Invitations } from './start'

const route = getRouteApi('/projects/$project')

export function Home() {
  const { project } = route.useParams()
  useTitle(project)
  const clusters = useQuery({ ...clustersQuery, select: (all) => all.filter((c) => c.project === project) }).data ?? []
  const nodes = clusters.flatMap((c) => c.nodes)
  const waiting = clusters.reduce((sum, c) => sum + (c.waiting?.total ?? 0), 0)
  const busy = nodes.filter((n) => n.scheduler?.jobs).length
  const projects = useQuery(projectsQuery).data
  if (projects && !projects.some((p) => p.name === project))
    return (
      <div className="blank">
        <h1>There is no such project</h1>
      </div>
    )
  return (
    <>
      <div className="head">
        <div>
          <h1>{project}</h1>
          <p className="dim">
            {count(clusters.length, 'cluster')}, {count(nodes.length, 'node')}
            {waiting > 0 && `, ${count(waiting, 'job')} waiting`}
          </p>
        </div>
        <NewCluster project={project} />
      </div>
      {projects && <Invitations projects={projects} />}
      <div className="cols">
        <div className="stack">
          <Glance clusters={clusters} nodes={nodes.length} busy={busy} waiting={waiting} />
          <List project={project} />
          <Panel title="Just now">
            <Feed project={project} />
          </Panel>
        </div>
        <div className="stack">
          <Held project={project} />
        </div>
      </div>
    </>
  )
}

function Glance(props: { clusters: Schemas['Cluster'][]; nodes: number; busy: number; waiting: number }) {
  let perHour = 0
  let currency = ''
  for (const c of props.clusters) {
    if (!c.per_hour) continue
    perHour += Number(c.per_hour.split(' ')[0])
    currency = money(c.per_hour).currency
  }
  const parts = [
    ...(currency
      ? [{ n: money(`${perHour.toFixed(2)} ${currency}`).number, unit: `${currency} per hour`, words: 'charged now' }]
      : []),
    { n: String(props.nodes), unit: '', words: props.nodes === 1 ? 'node' : 'nodes' },
    { n: String(props.busy), unit: '', words: props.busy === 1 ? 'node with jobs' : 'nodes with jobs' },
    { n: String(props.waiting), unit: '', words: props.waiting === 1 ? 'job waits' : 'jobs wait' },
  ]
  return (
    <section className="panel" aria-label="At a glance">
      <div className="sum">
        {parts.map((p) => (
          <div className="big" key={p.words}>
            <b>
              {p.n} {p.unit && <small>{p.unit}</small>}
            </b>
            <span>{p.words}</span>
          </div>
        ))}
      </div>
    </section>
  )
}

function Held({ project }: { project: string }) {
  return (
    <Panel title={`Quota of ${project}`}>
      <Loaded query={useQuery(quotaQuery(project))}>
        {(q) => (
          <div className="in quota">
            <Share words="Clusters" share={q.clusters} />
            <Share words="Nodes" share={q.nodes} />
            <Share words="Cores" share={q.cores} />
            <Share words="GPUs" share={q.gpus} />
            {q.limits.map((l) => (
              <Bar
                key={l.what}
                words={l.what}
                used={`${l.used} of ${l.limit}`}
                percent={l.percent}
                beside={l.left_seconds ? `lasts ${span(l.left_seconds)}` : ''}
              />
            ))}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function Share({ words, share }: { words: string; share: Schemas['Share'] }) {
  if (share.limit === undefined) return share.used > 0 ? <Bar words={words} used={String(share.used)} /> : null
  return (
    <Bar words={words} used={`${share.used} of ${share.limit}`} percent={share.limit ? (100 * share.used) / share.limit : 100} />
  )
}

function Bar({ words, used, percent, beside }: { words: string; used: string; percent?: number; beside?: string }) {
  const tone = percent !== undefined && percent >= 90 ? 'warn' : ''
  return (
    <div>
      <div className="line">
        <span>{words}</span>
        <span className="num">
          {used} {beside && <span className="faint">{beside}</span>}
        </span>
      </div>
      {percent !== undefined && (
        <div className="meter" aria-hidden="true">
          <i className={tone} style={{ width: `${Math.min(100, percent)}%` }} />
        </div>
      )}
    </div>
  )
}
