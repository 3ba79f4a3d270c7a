// What can be done to a cluster: each act asks first, and shows what it will do.
import { Menu } from '@base-ui/react/menu'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'

import { answer, api, type Cluster, once, type Schemas } from '../api'
import { clusterQuery, clustersQuery, jobsQuery } from '../data'
import { Ask } from '../parts/ask'
import { Choice, Count, Pick, Text } from '../parts/fields'
import { Icon, type IconName } from '../parts/icon'
import { Planned, usePlan } from '../parts/plan'
import { type Key, useKeys } from '../shell/keys'
import { bytes, count, quoted } from '../words'

type Answer = Schemas['Answer']
type Dialog = (props: { c: Cluster; onClose: () => void }) => React.ReactNode

/** most is how many nodes a queue may have. */
const most = 1000

/** useAccepted takes what the controller answers for what is so. */
function useAccepted() {
  const queries = useQueryClient()
  return useCallback(
    (a: Answer) => {
      const c = a.cluster
      if (!c) return
      queries.setQueryData(clusterQuery(`${c.project}/${c.name}`).queryKey, c)
      queries.setQueryData(clustersQuery.queryKey, (all) => all?.map((one) => (one.id === c.id ? c : one)))
    },
    [queries],
  )
}

function Scale({ c, onClose }: { c: Cluster; onClose: () => void }) {
  const queues = c.spec.queues ?? []
  const accepted = useAccepted()
  const [name, setName] = useState(queues[0]?.name ?? '')
  const queue = queues.find((q) => q.name === name)
  const [min, setMin] = useState(queue?.min ?? 0)
  const [max, setMax] = useState(queue?.max ?? 0)
  const [grows, setGrows] = useState(min < max)
  const [wait, setWait] = useState('')
  const choose = (other: string) => {
    const q = queues.find((one) => one.name === other)
    setName(other)
    setMin(q?.min ?? 0)
    setMax(q?.max ?? 0)
    setGrows((q?.min ?? 0) < (q?.max ?? 0))
  }
  const body = grows ? { queue: name, min, max: Math.max(min, max, 1) } : { queue: name, nodes: max }
  const fewer = queue !== undefined && (max < (queue.max ?? 0) || min < (queue.min ?? 0))
  const ask = (dry_run: boolean, key?: string) =>
    answer(
      api.POST('/v1/clusters/{cluster}/scale', {
        params: {
          path: { cluster: c.id },
          query: { dry_run, ...(wait && fewer ? { drain_timeout: wait } : {}) },
          ...once(key),
        },
        body,
      }),
    )
  const plan = usePlan(JSON.stringify(['scale', c.id, c.generation, body, wait]), () => ask(true))
  const size = (queues.length > 1 ? `${name}=` : '') + (grows ? `${body.min}-${body.max}` : max)
  return (
    <Ask
      title={`Scale ${c.name}`}
      act="Scale"
      ready={plan.fresh}
      command={`muster scale ${c.project}/${c.name} ${size}${wait && fewer ? ` --drain-timeout ${quoted(wait)}` : ''}`}
      onAct={async (key) => accepted(await ask(false, key))}
      onClose={onClose}
    >
      {queues.length > 1 && (
        <Pick label="Queue" value={name} values={queues.map((q) => [q.name, q.name] as const)} onChange={choose} />
      )}
      <Choice
        label="Size"
        value={grows ? 'grows' : 'fixed'}
        values={[
          ['fixed', 'Fixed'],
          ['grows', 'Grows with jobs'],
        ]}
        onChange={(v) => {
          setGrows(v === 'grows')
          setMax(Math.max(max, 1))
          setMin(Math.min(min, Math.max(max, 1)))
        }}
      />
      <div className="line gap-16">
        {grows && <Count label="At least" value={min} min={0} max={max} onChange={setMin} />}
        <Count label={grows ? 'At most' : 'Nodes'} value={max} min={grows ? Math.max(min, 1) : 0} max={most} onChange={setMax} />
      </div>
      {fewer && (
        <Text
          label="Nodes that go wait for their jobs for"
          value={wait}
          onChange={setWait}
          placeholder="as long as they take"
          hint="Such as 10m. Then jobs are ended."
        />
      )}
      <Planned plan={plan} />
    </Ask>
  )
}

function Pause({ c, onClose }: { c: Cluster; onClose: () => void }) {
  const accepted = useAccepted()
  const [jobs, setJobs] = useState<'requeue' | 'wait' | 'keep'>('requeue')
  const ask = (dry_run: boolean, key?: string) =>
    answer(
      api.POST('/v1/clusters/{cluster}/pause', {
        params: {
          path: { cluster: c.id },
          query: { dry_run, on_jobs: jobs },
          ...once(key),
        },
      }),
    )
  const plan = usePlan(JSON.stringify(['pause', c.id, c.generation, jobs]), () => ask(true))
  return (
    <Ask
      title={`Pause ${c.name}`}
      act="Pause"
      ready={plan.fresh}
      command={`muster pause ${c.project}/${c.name}${{ requeue: '', wait: ' --on-jobs wait', keep: ' --on-jobs keep' }[jobs]}`}
      onAct={async (key) => accepted(await ask(false, key))}
      onClose={onClose}
    >
      <p className="dim">Its machines go back. /home and the queue of jobs are kept.</p>
      <Choice
        label="Jobs that run"
        value={jobs}
        values={[
          ['requeue', 'begin again later'],
          ['wait', 'end first'],
          ['keep', 'stay in memory'],
        ]}
        onChange={setJobs}
      />
      <Planned plan={plan} />
    </Ask>
  )
}

/** Plain is an act of which nothing is asked but whether to go on with what is planned. */
type Plain = {
  act: string
  title: (name: string) => string
  command: (ref: string) => string
  send: (c: Cluster, dry_run: boolean, key?: string) => Promise<Answer>
}

/** plain is the dialog of a plain act. */
function plain({ act, title, command, send }: Plain): Dialog {
  return function PlainAct({ c, onClose }) {
    const accepted = useAccepted()
    const plan = usePlan(JSON.stringify([act, c.id, c.generation]), () => send(c, true))
    return (
      <Ask
        title={title(c.name)}
        act={act}
        ready={plan.fresh}
        command={command(`${c.project}/${c.name}`)}
        onAct={async (key) => accepted(await send(c, false, key))}
        onClose={onClose}
      >
        <Planned plan={plan} />
      </Ask>
    )
  }
}

const at = (c: Cluster, dry_run: boolean, key?: string) => ({ path: { cluster: c.id }, query: { dry_run }, ...once(key) })

const Resume = plain({
  act: 'Resume',
  title: (name) => `Resume ${name}`,
  command: (ref) => `muster resume ${ref}`,
  send: (c, dry_run, key) => answer(api.POST('/v1/clusters/{cluster}/resume', { params: at(c, dry_run, key) })),
})

const rollout = (action: 'resume' | 'back'): Plain['send'] => {
  return (c, dry_run, key) =>
    answer(api.POST('/v1/clusters/{cluster}/rollout', { params: at(c, dry_run, key), body: { action } }))
}

const GoOn = plain({
  act: 'Continue',
  title: (name) => `Continue the rollout of ${name}`,
  command: (ref) => `muster rollout resume ${ref}`,
  send: rollout('resume'),
})

const RollBack = plain({
  act: 'Roll back',
  title: (name) => `Take ${name} back to the image that it had`,
  command: (ref) => `muster rollout back ${ref}`,
  send: rollout('back'),
})

function Extend({ c, onClose }: { c: Cluster; onClose: () => void }) {
  const accepted = useAccepted()
  const [longer, setLonger] = useState('1d')
  const ask = (dry_run: boolean, key?: string) =>
    answer(
      api.POST('/v1/clusters/{cluster}/extend', {
        params: { path: { cluster: c.id }, query: { dry_run }, ...once(key) },
        body: { for: longer },
      }),
    )
  const plan = usePlan(longer && JSON.stringify(['extend', c.id, c.generation, longer]), () => ask(true))
  return (
    <Ask
      title={`Extend the lease of ${c.name}`}
      act="Extend"
      ready={plan.fresh}
      command={`muster extend ${c.project}/${c.name} --for ${quoted(longer || '1d')}`}
      onAct={async (key) => accepted(await ask(false, key))}
      onClose={onClose}
    >
      <Text label="Longer by" value={longer} onChange={setLonger} hint="Such as 12h or 3d." required />
      <Planned plan={plan} />
    </Ask>
  )
}

function Snapshot({ c, onClose }: { c: Cluster; onClose: () => void }) {
  const [name, setName] = useState(
    () =>
      `${c.name}-${new Date()
        .toISOString()
        .slice(0, 16)
        .replace(/[^0-9]/g, '')}`,
  )
  return (
    <Ask
      title={`Take a snapshot of ${c.name}`}
      act="Take snapshot"
      command={`muster snapshot ${c.project}/${c.name}${name ? ` --name ${quoted(name)}` : ''}`}
      onAct={() => answer(api.POST('/v1/clusters/{cluster}/snapshots', { params: { path: { cluster: c.id } }, body: { name } }))}
      onClose={onClose}
    >
      <p className="dim">A copy of /home and of the queue of jobs, from which other clusters can be made.</p>
      <Text label="Name" value={name} onChange={setName} required />
    </Ask>
  )
}

function Delete({ c, onClose }: { c: Cluster; onClose: () => void }) {
  const accepted = useAccepted()
  const navigate = useNavigate()
  const [typed, setTyped] = useState('')
  const jobs = useQuery(jobsQuery(`${c.project}/${c.name}`)).data?.items.filter((j) => j.state === 'running').length
  const lost = [
    `/home${c.home ? ` with ${bytes(c.home.used)}` : ''}`,
    ...(jobs ? [`${count(jobs, 'job')} that run`] : []),
    ...(c.waiting ? [`${count(c.waiting.total, 'job')} that wait`] : []),
  ]
  return (
    <Ask
      title={`Delete ${c.name}`}
      act={`Delete ${c.name}`}
      bad
      ready={typed === c.name}
      command={`muster delete ${c.project}/${c.name}`}
      onAct={async (key) => {
        accepted(
          await answer(
            api.DELETE('/v1/clusters/{cluster}', {
              params: { path: { cluster: c.id }, header: { 'Idempotency-Key': key } },
            }),
          ),
        )
        await navigate({ to: '/projects/$project/clusters', params: { project: c.project } })
      }}
      onClose={onClose}
    >
      <p>This will be lost, for ever:</p>
      <ul className="effects">
        {lost.map((what) => (
          <li key={what}>{what}</li>
        ))}
      </ul>
      <p className="dim">Snapshots of it stay.</p>
      <Text label={`Type ${c.name} to delete it`} value={typed} onChange={setTyped} required />
    </Ask>
  )
}

type Act = { name: string; words: string; key?: string; icon: IconName; dialog: Dialog; when: (c: Cluster) => boolean }

const paused = (c: Cluster) => c.desired === 'paused'

const acts: Act[] = [
  { name: 'scale', words: 'Scale', key: 's', icon: 'scale', dialog: Scale, when: (c) => c.desired === 'present' },
  { name: 'pause', words: 'Pause', key: 'p', icon: 'pause', dialog: Pause, when: (c) => c.desired === 'present' },
  { name: 'resume', words: 'Resume', key: 'p', icon: 'play', dialog: Resume, when: paused },
  { name: 'go on', words: 'Continue the rollout', icon: 'play', dialog: GoOn, when: (c) => c.rollout?.stopped !== undefined },
  { name: 'back', words: 'Roll back', icon: 'repeat', dialog: RollBack, when: (c) => c.rollout !== undefined },
  { name: 'extend', words: 'Extend the lease', icon: 'clock', dialog: Extend, when: (c) => c.lease.ends_at !== undefined },
  { name: 'snapshot', words: 'Take a snapshot', icon: 'snapshots', dialog: Snapshot, when: () => true },
  { name: 'delete', words: 'Delete', icon: 'cross', dialog: Delete, when: () => true },
]

/** first is how many acts are buttons; the others are in a menu. */
const first = 2

/** Acts are buttons for what can be done to a cluster now. */
export function Acts({ c }: { c: Cluster }) {
  const [open, setOpen] = useState('')
  const now = acts.filter((a) => c.desired !== 'deleted' && a.when(c))
  const buttons = now.slice(0, first).filter((a) => a.key)
  const rest = now.filter((a) => !buttons.includes(a))
  const known = now.map((a) => a.name).join()
  useKeys(
    useMemo<Key[]>(
      () =>
        acts.flatMap((a) =>
          a.key && known.split(',').includes(a.name) ? [{ keys: [a.key], words: a.words, act: () => setOpen(a.name) }] : [],
        ),
      [known],
    ),
  )
  const Dialog = acts.find((a) => a.name === open)?.dialog
  if (now.length === 0 && !Dialog) return null
  return (
    <div className="actions">
      {buttons.map((a) => (
        <button type="button" className="btn" key={a.key} onClick={() => setOpen(a.name)}>
          <Icon name={a.icon} />
          {a.words} <kbd>{a.key}</kbd>
        </button>
      ))}
      <Menu.Root>
        <Menu.Trigger className="btn icon" aria-label="More to do">
          <Icon name="more" />
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner sideOffset={4} align="end">
            <Menu.Popup className="menu">
              {rest.map((a) => (
                <Menu.Item key={a.name} className="item" onClick={() => setOpen(a.name)}>
                  <Icon name={a.icon} />
                  {a.words}
                </Menu.Item>
              ))}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {Dialog && <Dialog c={c} onClose={() => setOpen('')} />}
    </div>
  )
}
