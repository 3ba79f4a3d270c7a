// A new cluster: a form, its file and its plan, side by side. The file is what counts; the form changes single values in it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useBlocker, useNavigate } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense, useMemo, useRef, useState } from 'react'

import { answer, api, once, Refused, type Schemas } from '../api'
import { classesQuery, clusterQuery, clustersQuery, imagesQuery, may, projectsQuery, snapshotsQuery } from '../data'
import { accept, addQueue, begin, type File, fileOf, likeOf, type Queue, read, resize, sizeOf, write } from '../file'
import { useLive } from '../live'
import { Choice, Count, Pick, Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Bones, Command, Copy, Loaded, Wrong } from '../parts/panel'
import { useOnce } from '../parts/once'
import { Effects, usePlan } from '../parts/plan'
import { useTitle } from '../parts/title'
import { type Key, useKeys } from '../shell/keys'
import { clock, count, quoted } from '../words'

const Editor = lazy(() => import('../parts/editor'))
const route = getRouteApi('/projects/$project/new')

/** most is how many nodes a queue may have. */
const most = 1000

/** written is a request's part that brings a cluster file as it is written: errors point into it. */
const written = (text: string) => ({
  headers: { 'Content-Type': 'application/yaml' },
  body: text as never,
  bodySerializer: (body: unknown) => body as string,
})

/** Send does what a file says, or only plans it. */
type Send = (text: string, dry_run: boolean, key?: string) => Promise<Schemas['Answer']>

const create =
  (from_snapshot: string): Send =>
  (text, dry_run, key) => {
    const query = { dry_run, ...(from_snapshot ? { from_snapshot } : {}) }
    return answer(api.POST('/v1/clusters', { params: { query, ...once(key) }, ...written(text) }))
  }

const apply =
  (cluster: string): Send =>
  (text, dry_run, key) =>
    answer(
      api.PUT('/v1/clusters/{cluster}', { params: { path: { cluster }, query: { dry_run }, ...once(key) }, ...written(text) }),
    )

const none: Schemas['Diagnostic'][] = []

export function New() {
  const { project } = route.useParams()
  const { like } = route.useSearch()
  const navigate = useNavigate()
  const [snapshot, setSnapshot] = useState('')
  const clusters = useQuery(clustersQuery).data
  const snapshots = useQuery(snapshotsQuery).data?.filter((s) => s.project === project) ?? []
  useTitle('New cluster')
  if (!clusters) return <Bones />
  const models = clusters.filter((c) => c.project === project)
  const model = clusters.find((c) => c.id === like)
  const taken = models.map((c) => c.name)
  return (
    <Draft
      key={`${project} ${like ?? ''}`}
      project={project}
      title="New cluster"
      act="Create"
      begun={model ? likeOf(model.spec, project, `${model.name}-2`) : begin(project, taken)}
      of={snapshot}
      send={create(snapshot)}
      command={(file) => `muster create -f ${quoted(file)}${snapshot ? ` --from-snapshot ${snapshot}` : ''}`}
    >
      {models.length > 0 && (
        <Pick
          label="Like"
          value={like ?? ''}
          values={[['', 'no other'], ...models.map((c) => [c.id, c.name] as const)]}
          onChange={(like) => void navigate({ to: '/projects/$project/new', params: { project }, search: like ? { like } : {} })}
        />
      )}
      {snapshots.length > 0 && (
        <Pick
          label="Files and jobs of"
          value={snapshot}
          values={[['', 'no snapshot'], ...snapshots.map((s) => [s.id, s.name] as const)]}
          onChange={setSnapshot}
        />
      )}
    </Draft>
  )
}

const fileRoute = getRouteApi('/projects/$project/clusters/$cluster/file')

/** Change is a cluster's file, which can be changed. */
export function Change() {
  const { project, cluster } = fileRoute.useParams()
  useTitle(`File of ${cluster}`)
  const query = useQuery(clusterQuery(`${project}/${cluster}`))
  return (
    <Loaded query={query}>
      {(c) => (
        <Draft
          key={c.id}
          project={project}
          title={`File of ${c.name}`}
          act="Apply"
          begun={fileOf(c.spec)}
          of={`${c.id} ${c.generation}`}
          send={apply(c.id)}
          command={(file) => `muster apply -f ${quoted(file)}`}
        />
      )}
    </Loaded>
  )
}

type Props = {
  project: string
  title: string
  act: string
  begun: string
  of: string
  send: Send
  command: (file: string) => string
  children?: ReactNode
}

/**
 * Draft is a file that is being written. of is what its plan depends on beside its text; begun is the text that it begins with, which
 * may become another one meanwhile.
 */
function Draft({ project, title, act, begun, of, send, command, children }: Props) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const owns = may(useQuery(projectsQuery).data, project, 'own')
  const { live } = useLive()
  const [first, setFirst] = useState(begun)
  const [text, setText] = useState(begun)
  const { busy, wrong, run } = useOnce(text + of)
  const done = useRef(false)
  const file = useMemo(() => read(text), [text])
  const plan = usePlan(owns ? JSON.stringify([title, of, text]) : '', () => send(text, true), !busy)
  const errors = plan.error instanceof Refused ? (plan.error.problem.errors ?? none) : none
  const ready = plan.fresh && !busy && live !== false
  const dirty = text !== first
  useBlocker({
    shouldBlockFn: () => dirty && !done.current && !confirm('Leave, and lose what you have written?'),
    enableBeforeUnload: () => dirty && !done.current,
  })
  const make = async () => {
    if (!ready) return
    await run(async (key) => {
      const { cluster: c } = await send(text, false, key)
      done.current = true
      await queries.invalidateQueries({ queryKey: clustersQuery.queryKey })
      if (!c) return
      queries.setQueryData(clusterQuery(`${c.project}/${c.name}`).queryKey, c)
      await navigate({ to: '/projects/$project/clusters/$cluster', params: { project: c.project, cluster: c.name } })
    })
  }
  const latest = useRef(make)
  latest.current = make
  useKeys(
    useMemo<Key[]>(() => (ready ? [{ keys: ['Ctrl enter'], words: act, act: () => void latest.current() }] : []), [ready, act]),
  )
  const name = file?.name || 'cluster'
  return (
    <div className="draft">
      <div className="bar">
        <h1>{title}</h1>
        <span className="grow" />
        {children}
      </div>
      <div className="form">
        {act === 'Apply' && begun !== first && !busy && (
          <div className="note warn">
            <span className="grow">This has changed meanwhile.</span>
            <button
              type="button"
              className="btn small"
              onClick={() => {
                setFirst(begun)
                setText(begun)
              }}
            >
              Begin again
            </button>
          </div>
        )}
        {file ? (
          <Form file={file} text={text} set={setText} errors={errors} />
        ) : (
          <p className="dim">No form can show this file. What is wrong stands at its line.</p>
        )}
      </div>
      <div className="code">
        <header>
          {name}.yaml
          <Copy text={text} what="the file">
            Copy
          </Copy>
        </header>
        <Suspense fallback={<Bones />}>
          <Editor text={text} onChange={setText} wrong={errors} />
        </Suspense>
      </div>
      <section className="plan" aria-label="Plan">
        <div className="scroll" tabIndex={0}>
          {owns && <Verdict plan={plan} act={act} file={file} take={file && ((o) => setText(accept(text, file, o)))} />}
          {wrong && <Wrong why={wrong} />}
        </div>
        <footer>
          <button type="button" className="btn" onClick={() => save(text, `${name}.yaml`)}>
            Save file
          </button>
          {owns && (
            <button type="button" className="btn main grow" aria-disabled={!ready} onClick={() => void make()}>
              {busy ? 'Asked for …' : `${act} ${name}`} <kbd>Ctrl</kbd>
              <kbd>↵</kbd>
            </button>
          )}
        </footer>
        <div className="command">
          <Command text={command(`${name}.yaml`)} />
        </div>
      </section>
    </div>
  )
}

/** save gives the browser a file to keep. */
function save(text: string, name: string) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/yaml' }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

const refusals: Partial<Record<Schemas['Problem']['code'], string>> = {
  invalid: 'The file is not right yet',
  'no-capacity': 'It does not fit',
  quota: 'It is over the quota',
  budget: 'It is over the budget',
  forbidden: 'You may not do this',
  conflict: 'It cannot be done now',
}

type Offer = Schemas['Offer']

type VerdictProps = {
  plan: ReturnType<typeof usePlan>
  act: string
  file: File | undefined
  take: ((offer: Offer) => void) | undefined
}

/** offered says what an offer does, for its button. */
function offered(o: Offer, now: Date): string {
  switch (o.kind) {
    case 'later':
      return `Start at ${clock(new Date(o.start ?? now), now)}`
    case 'shorter':
      return `For ${o.for} only`
    case 'smaller':
      return `${count(o.nodes ?? 0, 'node')} in ${o.queue}`
    case 'other-class':
      return `${o.queue} of class ${o.class}`
  }
}

function Verdict({ plan, act, file, take }: VerdictProps) {
  const now = new Date()
  if (plan.error) {
    const problem = plan.error instanceof Refused ? plan.error.problem : undefined
    const offers = problem?.offers ?? []
    return (
      <div className="stack gap-12">
        <b className="verdict t-bad" role="status">
          <Icon name="cross" /> {problem ? (refusals[problem.code] ?? 'It was refused') : 'The controller does not answer'}
        </b>
        <Wrong why={plan.error} quiet />
        {take && offers.length > 0 && (
          <div className="stack gap-4" role="group" aria-label="What would fit instead">
            <span className="faint">What would fit instead</span>
            {offers.map((o) => (
              <button key={o.kind} type="button" className="btn" title={o.text} onClick={() => take(o)}>
                {offered(o, now)}
              </button>
            ))}
          </div>
        )}
      </div>
    )
  }
  if (!plan.data) return <Bones />
  const later = plan.data.fits_at
  const nodes = plan.data.add.length
  return (
    <div className={plan.fresh ? 'stack gap-12' : 'stack gap-12 faint'}>
      <b className="verdict" role="status">
        <Icon name="tick" /> {later ? `Fits at ${clock(new Date(later), now)}` : act === 'Create' ? 'Fits now' : 'Can be applied'}
      </b>
      {nodes > 0 && (
        <span className="dim">
          {count(nodes, 'node')}
          {file?.lease?.for && ` for ${file.lease.for}`}
        </span>
      )}
      <Effects plan={{ ...plan.data, fits_at: undefined }} />
      <ul className="effects">
        {plan.data.add.slice(0, 20).map((p) => (
          <li key={p.node}>
            <code>{p.node}</code> {p.class}, on {p.machine}
          </li>
        ))}
        {nodes > 20 && <li>and {nodes - 20} more</li>}
      </ul>
    </div>
  )
}

type Edited = { file: File; text: string; set: (text: string) => void; errors: Schemas['Diagnostic'][] }

function Form({ file, text, set, errors }: Edited) {
  const images = useQuery(imagesQuery).data ?? []
  const names = [...new Set(images.map((i) => i.name))]
  const put = (path: (string | number)[], value: unknown) => set(write(text, path, value))
  const wrong = (path: string) => errors.find((d) => d.path === path)?.text
  return (
    <>
      <section>
        <div className="two">
          <Text label="Name" value={file.name ?? ''} onChange={(v) => put(['name'], v)} wrong={wrong('name')} />
          <Pick
            label="Image"
            value={file.image ?? ''}
            values={[['', "the site's default"], ...names.map((n) => [n, n] as const)]}
            onChange={(v) => put(['image'], v)}
            wrong={wrong('image')}
          />
        </div>
      </section>
      <section>
        <div className="line">
          <h2>Nodes</h2>
          <span className="grow" />
          <button type="button" className="btn small" onClick={() => set(addQueue(text, file))}>
            <Icon name="plus" /> Queue
          </button>
        </div>
        {file.queues?.map((q, i) => (
          <QueueForm key={i} q={q} index={i} file={file} text={text} set={set} errors={errors} />
        ))}
        {!file.queues && file.nodes !== undefined && (
          <Count label="Nodes" value={file.nodes} min={1} max={most} onChange={(n) => put(['nodes'], n)} wrong={wrong('nodes')} />
        )}
      </section>
      <section>
        <h2>When</h2>
        <div className="two">
          <Text
            label="Starts"
            value={file.lease?.start ?? ''}
            onChange={(v) => put(['lease', 'start'], v)}
            placeholder="now"
            hint="Such as +2h, or 2027-01-20T08:00:00Z."
            wrong={wrong('lease.start')}
          />
          <Text
            label="Lasts"
            value={file.lease?.for ?? ''}
            onChange={(v) => put(['lease', 'for'], v)}
            placeholder="the site's usual"
            hint="Such as 12h or 3d."
            wrong={wrong('lease.for')}
          />
        </div>
        {file.lease?.for && (
          <Choice
            label="At its end"
            value={file.lease.on_end ?? 'pause'}
            values={[
              ['pause', 'Pause, keep files'],
              ['delete', 'Delete'],
            ]}
            onChange={(v) => put(['lease', 'on_end'], v)}
          />
        )}
      </section>
      <section>
        <h2>Cost</h2>
        <div className="two">
          <Text
            label="Limit"
            value={file.budget?.limit ?? ''}
            onChange={(v) => put(['budget', 'limit'], v)}
            placeholder="none"
            hint="Such as 500 EUR."
            wrong={wrong('budget.limit')}
          />
          {file.budget?.limit && (
            <Choice
              label="At the limit"
              value={file.budget.on_limit ?? 'pause'}
              values={[
                ['pause', 'Pause'],
                ['warn', 'Only tell me'],
              ]}
              onChange={(v) => put(['budget', 'on_limit'], v)}
            />
          )}
        </div>
      </section>
    </>
  )
}

const placements = [
  ['any', 'any'],
  ['compact', 'compact'],
  ['spread', 'spread'],
  ['same-switch', 'one switch'],
] as const

function QueueForm({ q, index, text, set, file, errors }: Edited & { q: Queue; index: number }) {
  const classes = useQuery(classesQuery).data ?? []
  const usual = classes.find((c) => c.default?.includes('queues'))
  const { min, max, grows } = sizeOf(q)
  const put = (field: string, value: unknown) => set(write(text, ['queues', index, field], value))
  const size = (min: number, max: number, grows: boolean) => set(resize(text, index, min, max, grows))
  const wrong = (field: string) => errors.find((d) => d.path === `queues[${index}].${field}`)?.text
  return (
    <div className="queue" role="group" aria-label={`Queue ${q.name}`}>
      <div className="r1">
        <Text label="Queue" value={String(q.name ?? '')} onChange={(v) => put('name', v)} wrong={wrong('name')} />
        <Pick
          label="Class"
          value={q.class ?? ''}
          values={[
            ['', usual ? `${usual.name}, ${usual.free} free` : "the site's default"],
            ...classes.map((c) => [c.name, `${c.name}, ${c.free} free${c.price ? `, ${c.price} an hour` : ''}`] as const),
          ]}
          onChange={(v) => put('class', v)}
          wrong={wrong('class')}
        />
        {(file.queues?.length ?? 0) > 1 && (
          <button
            type="button"
            className="btn quiet small icon"
            aria-label={`Remove queue ${q.name}`}
            onClick={() => set(write(text, ['queues', index], undefined))}
          >
            <Icon name="cross" />
          </button>
        )}
      </div>
      <div className="r2">
        <Choice
          label="Nodes"
          value={grows ? 'grows' : 'fixed'}
          values={[
            ['fixed', 'Fixed'],
            ['grows', 'Grows with jobs'],
          ]}
          onChange={(v) => size(v === 'grows' ? 0 : max, Math.max(max, 1), v === 'grows')}
        />
        {grows && <Count label="At least" value={min} min={0} max={max} onChange={(n) => size(n, max, true)} />}
        <Count
          label={grows ? 'At most' : 'How many'}
          value={max}
          min={grows ? Math.max(min, 1) : 0}
          max={most}
          onChange={(n) => size(grows ? min : n, n, grows)}
          wrong={wrong('nodes') ?? wrong('max') ?? wrong('min')}
        />
      </div>
      <Choice
        label="Placed"
        value={q.placement ?? 'any'}
        values={placements}
        onChange={(v) => put('placement', v === 'any' ? '' : v)}
      />
      {grows && (
        <Text
          label="Idle ones go after"
          value={q.idle_after ?? ''}
          onChange={(v) => put('idle_after', v)}
          placeholder="5m"
          wrong={wrong('idle_after')}
        />
      )}
    </div>
  )
}
