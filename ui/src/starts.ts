// How nodes have started, step by step, as events tell it.
import type { Event, Node } from './api'

/** steps are the phases of a node that starts, with what happens in them. */
export const steps = [
  ['pending', 'waits'],
  ['attaching', 'power, network'],
  ['booting', 'boots'],
  ['joining', 'joins'],
  ['testing', 'is tested'],
] as const

export type Step = { phase: string; from: number; until?: number }

/** Start is one attempt to start a node, on one machine. */
export type Start = { node: string; machine: string; steps: Step[]; ended?: 'ready' | 'failed' }

const known: readonly string[] = steps.map(([phase]) => phase)

/** startsOf are the starts of each node, the last attempt of each at the end, with those before it that failed. */
export function startsOf(nodes: Pick<Node, 'name'>[], events: Event[]): Map<string, Start[]> {
  const all = new Map<string, Start[]>(nodes.map((n) => [n.name, []]))
  for (const e of events.filter((e) => e.type === 'node.phase').toSorted((a, b) => a.seq - b.seq)) {
    const starts = e.node === undefined ? undefined : all.get(e.node)
    if (!starts || !e.node || !e.phase) continue
    const at = Date.parse(e.at)
    let last = starts.at(-1)
    const running = last?.steps.at(-1)
    if (last && !last.ended && running) running.until = at
    if (known.includes(e.phase)) {
      if (!last || last.ended) {
        if (last?.ended === 'ready') starts.length = 0
        starts.push((last = { node: e.node, machine: '', steps: [] }))
      }
      last.steps.push({ phase: e.phase, from: at })
      last.machine = e.machine ?? last.machine
    } else if (last && !last.ended && (e.phase === 'ready' || e.phase === 'failed')) last.ended = e.phase
    else if (e.phase !== 'draining' && last && !last.ended) starts.pop() // it goes
  }
  return all
}

/** bootSteps are what a machine does that boots over its network, by the last that it has told, and then as steps. */
export const bootSteps = [
  ['attaching', 'power, network'],
  ['booting', 'firmware'],
  ['address', 'iPXE'],
  ['script', 'loads its kernel'],
  ['kernel', 'kernel'],
  ['init', 'loads its image'],
  ['root', 'starts its services'],
  ['joining', 'joins'],
  ['testing', 'is tested'],
] as const

/** bootsOf are the boots of a machine, for its nodes and to be inspected, the newest last. Those that begin before are left out. */
export function bootsOf(events: Event[]): Start[] {
  const all: Start[] = []
  for (const e of events.toSorted((a, b) => a.seq - b.seq)) {
    const [of, what, step] = e.type.split('.')
    if ((of !== 'node' && of !== 'machine') || (what !== 'phase' && what !== 'boot')) continue
    const at = Date.parse(e.at)
    const who = of === 'node' ? `${e.cluster}/${e.node}` : 'inspection'
    const phase = what === 'boot' ? step : e.phase === 'inspecting' ? 'booting' : e.phase
    let last = all.at(-1)
    if (last && last.node !== who && !last.ended) {
      if (what === 'phase' && of === 'machine') continue // of a machine that a node has
      all.pop()
      last = undefined
    }
    const begins = phase === 'attaching' || phase === 'booting'
    if (!last || last.ended) {
      if (!begins) continue
      all.push((last = { node: who, machine: e.machine ?? '', steps: [] }))
    }
    const running = last.steps.at(-1)
    if (running) running.until = at
    if (bootSteps.some(([one]) => one === phase)) last.steps.push({ phase: phase ?? '', from: at })
    else last.ended = phase === 'ready' || phase === 'available' ? 'ready' : 'failed'
  }
  return all
}

/** spanOf is from when on, and until when, starts are under way. */
export function spanOf(starts: Start[], now: number): { from: number; until: number } {
  const times = starts.flatMap((s) => s.steps.map((step) => step.from))
  const ends = starts.flatMap((s) => s.steps.map((step) => step.until ?? now))
  return { from: Math.min(now, ...times), until: Math.max(...ends, Math.min(now, ...times) + 1) }
}
