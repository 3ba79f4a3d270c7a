// How things are: phases as pills, nodes as marks. Shape says it as well as colour.
import type { ReactNode } from 'react'

import type { Cluster, Node } from '../api'
import { count } from '../words'

type Tone = 'ok' | 'go' | 'warn' | 'bad' | 'rest' | ''

const tones: Record<string, Tone> = {
  ready: 'ok',
  running: 'ok',
  available: '',
  completed: 'ok',
  'in-use': 'ok',
  degraded: 'warn',
  draining: 'warn',
  maintenance: 'rest',
  failed: 'bad',
  'timed-out': 'bad',
  'out-of-memory': 'bad',
  'node-failed': 'bad',
  cancelled: 'rest',
  preempted: 'warn',
  requeued: 'warn',
  quarantined: 'bad',
  paused: 'rest',
  pausing: 'rest',
  pending: '',
  deleted: '',
  reserved: '',
  gone: '',
  passed: 'ok',
  again: 'warn',
  slow: 'bad',
  ok: 'ok',
  incomplete: 'warn',
}

/** toneOf is how a phase is shown; one that nobody has named is under way. */
export const toneOf = (phase: string): Tone => tones[phase] ?? 'go'

const marks: Record<Tone, ReactNode> = {
  ok: <path d="m1.5 5.5 2.3 2.3L8.5 3" stroke="currentColor" strokeWidth="1.8" fill="none" />,
  go: <circle cx="5" cy="5" r="3.6" stroke="currentColor" strokeWidth="1.6" fill="none" strokeDasharray="14 9" />,
  warn: <path d="M5 1 9.5 9h-9z" fill="currentColor" />,
  bad: <path d="m2 2 6 6M8 2 2 8" stroke="currentColor" strokeWidth="1.8" />,
  rest: <path d="M3 1.5v7M7 1.5v7" stroke="currentColor" strokeWidth="1.8" />,
  '': <circle cx="5" cy="5" r="3.6" stroke="currentColor" strokeWidth="1.4" fill="none" strokeDasharray="2.2 1.6" />,
}

export function Pill({ phase }: { phase: string }) {
  const tone = toneOf(phase)
  return (
    <span className={`pill ${tone}`}>
      <svg viewBox="0 0 10 10" aria-hidden="true">
        {marks[tone]}
      </svg>
      {phase}
    </span>
  )
}

/** steps say how far a node has come, in percent. */
const steps: Record<string, number> = { pending: 5, attaching: 20, booting: 45, joining: 70, testing: 88 }

/** markOf is the mark of a node, and the words for it. */
export function markOf(n: Node): { mark: string; words: string; done?: number } {
  const done = steps[n.phase]
  if (done !== undefined) return { mark: 'go', words: n.phase, done }
  switch (n.phase) {
    case 'ready':
      return n.scheduler?.jobs ? { mark: 'busy', words: count(n.scheduler.jobs, 'job') } : { mark: 'idle', words: 'idle' }
    case 'draining':
      return { mark: 'drain', words: 'drains' }
    case 'releasing':
    case 'gone':
      return { mark: 'leave', words: 'leaves' }
    case 'failed':
      return { mark: 'bad', words: 'failed' }
  }
  return { mark: 'sleep', words: n.phase }
}

/** Marks are a queue's nodes, one mark each. */
export function Marks({ nodes, small = false }: { nodes: Node[]; small?: boolean }) {
  const words = new Map<string, number>()
  for (const n of nodes) words.set(markOf(n).words, (words.get(markOf(n).words) ?? 0) + 1)
  const told = [...words].map(([what, n]) => `${n} ${what}`).join(', ')
  return (
    <span className={`marks${small ? ' s' : ''}`} role="img" aria-label={told || 'no nodes'}>
      {nodes.map((n) => {
        const { mark, done } = markOf(n)
        return (
          <i
            key={n.id}
            className={`m ${mark}`}
            style={done === undefined ? undefined : ({ '--p': `${done}%` } as object)}
            title={`${n.name}: ${n.phase}`}
          />
        )
      })}
    </span>
  )
}

/** queuesOf are a cluster's queues with their nodes, in the order of its file. */
export function queuesOf(c: Cluster): { name: string; nodes: Node[] }[] {
  return (c.spec.queues ?? []).map((q) => ({ name: q.name, nodes: c.nodes.filter((n) => n.queue === q.name) }))
}
