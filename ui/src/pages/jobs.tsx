// The jobs of a cluster that run or wait: why they wait, and what those can do whose they are.
import { Dialog } from '@base-ui/react/dialog'
import { Menu } from '@base-ui/react/menu'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Cluster, type Schemas } from '../api'
import { jobsQuery, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel, Wrong } from '../parts/panel'
import { Pill } from '../parts/state'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { outputOf } from '../task'
import { bytes } from '../words'

type Job = Schemas['Job']

/** Change is what the scheduler does with a job that goes on, as a button says it, with what comes of it. */
type Change = { act: 'hold' | 'release' | 'requeue'; words: string; effect: string }

const ofPending: Change[] = [
  { act: 'hold', words: 'Hold', effect: 'It does not start until it is released.' },
  { act: 'release', words: 'Release', effect: 'It may start again.' },
]
const ofRunning: Change[] = [
  { act: 'requeue', words: 'Requeue', effect: 'It ends now, and starts again some minutes later. What it has written stays.' },
]

export function Jobs({ c, enter }: { c: Cluster; enter: boolean }) {
  const ref = `${c.project}/${c.name}`
  const jobs = useQuery(jobsQuery(ref))
  const self = useQuery(siteQuery).data?.identity
  const waits = new Map(c.waiting?.jobs.map((j) => [j.id, j.waits_for]))
  const [open, setOpen] = useState<{ job: Job; what: 'output' | 'cancel' | Change }>()
  const close = () => setOpen(undefined)
  return (
    <Panel
      title="Jobs"
      more={
        <Link to="/projects/$project/jobs" params={{ project: c.project }} search={{ cluster: c.name }}>
          Those that have ended
        </Link>
      }
    >
      <Loaded query={jobs}>
        {({ items }) => (
          <Table
            label="Jobs"
            rows={items}
            of={(j) => String(j.number)}
            none="No job runs or waits."
            columns={[
              [
                'Job',
                (j) => (
                  <>
                    {j.id} <span className="dim">{j.name}</span>
                  </>
                ),
              ],
              ['Who', (j) => j.user],
              ['Nodes', (j) => j.node_count, 'right'],
              [
                'State',
                (j) =>
                  j.state === 'running' ? (
                    <Pill phase="running" />
                  ) : (
                    <span className="t-warn">{waits.get(j.number) ?? j.reason ?? j.state}</span>
                  ),
                'wrap',
              ],
              ['Since', (j) => <Ago at={j.began_at ?? j.submitted_at} />],
              [
                '',
                (j) =>
                  enter &&
                  j.user === self && (
                    <span className="line end">
                      {j.state === 'running' && (
                        <button type="button" className="btn quiet small" onClick={() => setOpen({ job: j, what: 'output' })}>
                          Output<span className="sr"> of job {j.id}</span>
                        </button>
                      )}
                      <button type="button" className="btn quiet small" onClick={() => setOpen({ job: j, what: 'cancel' })}>
                        Cancel<span className="sr"> job {j.id}</span>
                      </button>
                      <More job={j} onChoose={(what) => setOpen({ job: j, what })} />
                    </span>
                  ),
                'right',
              ],
            ]}
          />
        )}
      </Loaded>
      {jobs.data?.next && (
        <footer className="line">
          More than these: <Command text={`muster jobs ${ref}`} />
        </footer>
      )}
      {open?.what === 'output' && <Written cluster={ref} job={open.job} onClose={close} />}
      {open?.what === 'cancel' && <Cancel cluster={ref} job={open.job} onClose={close} />}
      {typeof open?.what === 'object' && <Changing cluster={ref} job={open.job} change={open.what} onClose={close} />}
    </Panel>
  )
}

type Of = { cluster: string; job: Job; onClose: () => void }

function Cancel({ cluster, job, onClose }: Of) {
  return (
    <Ask
      title={`End job ${job.id}`}
      act="End the job"
      bad
      command={`muster jobs cancel ${cluster} ${job.id}`}
      onAct={async () => {
        const task = await answer(api.DELETE('/v1/clusters/{cluster}/jobs/{job}', { params: { path: { cluster, job: job.id } } }))
        await outputOf(task, 30) // then it is asked for
      }}
      onClose={onClose}
    >
      <p>
        {job.state === 'running' ? 'It ends at once. What it has written stays.' : 'It leaves the queue.'} <b>{job.name}</b>
      </p>
    </Ask>
  )
}

/** More is a menu of what can be done with a job besides. */
function More({ job, onChoose }: { job: Job; onChoose: (change: Change) => void }) {
  return (
    <Menu.Root>
      <Menu.Trigger className="btn quiet small icon" aria-label={`More to do with job ${job.id}`}>
        <Icon name="more" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="end">
          <Menu.Popup className="menu">
            {(job.state === 'running' ? ofRunning : ofPending).map((c) => (
              <Menu.Item key={c.act} className="item" onClick={() => onChoose(c)}>
                {c.words}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

function Changing({ cluster, job, change, onClose }: Of & { change: Change }) {
  return (
    <Ask
      title={`${change.words} job ${job.id}`}
      act={change.words}
      bad={change.act === 'requeue'}
      command={`muster jobs ${change.act} ${cluster} ${job.id}`}
      onAct={async () => {
        const params = { path: { cluster, job: job.id } }
        const body = { act: change.act }
        await outputOf(await answer(api.POST('/v1/clusters/{cluster}/jobs/{job}/change', { params, body })), 30)
      }}
      onClose={onClose}
    >
      <p>
        {change.effect} <b>{job.name}</b>
      </p>
    </Ask>
  )
}

/** Written is what a job has written so far, asked for once. */
function Written({ cluster, job, onClose }: Of) {
  const output = useQuery({
    queryKey: ['output', cluster, job.id],
    queryFn: async () =>
      outputOf(
        await answer(api.POST('/v1/clusters/{cluster}/jobs/{job}/output', { params: { path: { cluster, job: job.id } } })),
        120,
      ),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  return (
    <Dialog.Root open onOpenChange={(is) => !is && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog over-page wide-dialog">
          <Dialog.Title render={<h2 />}>Output of job {job.id}</Dialog.Title>
          <Loaded query={output}>
            {({ text, more }) => (
              <>
                <pre className="output" tabIndex={0}>
                  {text || 'It has written nothing yet.'}
                </pre>
                {more > 0 && <p className="t-warn">It has written {bytes(more)} more. Read them in a terminal.</p>}
              </>
            )}
          </Loaded>
          {output.data && output.error && <Wrong why={output.error} />}
          <Command text={`muster jobs output ${cluster} ${job.id}`} />
          <div className="line end">
            <button type="button" className="btn" disabled={output.isFetching} onClick={() => void output.refetch()}>
              Read again
            </button>
            <Dialog.Close className="btn main">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
