import { expect, test } from 'vitest'

import type { Event } from './api'
import { bootsOf, spanOf, startsOf } from './starts'

const nodes = [{ name: 'n1' }, { name: 'n2' }]

function told(...all: [node: string, phase: string, second: number, machine?: string][]): Event[] {
  return all.map(([node, phase, second, machine], i) => ({
    seq: i + 1,
    at: new Date(1000 * second).toISOString(),
    type: 'node.phase',
    text: '',
    node,
    phase: phase as NonNullable<Event['phase']>,
    ...(machine ? { machine } : {}),
  }))
}

test('each step lasts until the next', () => {
  const n1 = startsOf(nodes, told(['n1', 'attaching', 0, 'm1'], ['n1', 'booting', 2], ['n1', 'ready', 5])).get('n1')
  expect(n1).toEqual([
    {
      node: 'n1',
      machine: 'm1',
      ended: 'ready',
      steps: [
        { phase: 'attaching', from: 0, until: 2000 },
        { phase: 'booting', from: 2000, until: 5000 },
      ],
    },
  ])
})

test('attempts that failed stay until one has come up', () => {
  const events = told(['n1', 'booting', 0, 'm1'], ['n1', 'failed', 9], ['n1', 'pending', 9], ['n1', 'booting', 10, 'm2'])
  expect(
    startsOf(nodes, events)
      .get('n1')
      ?.map((s) => [s.machine, s.ended]),
  ).toEqual([
    ['m1', 'failed'],
    ['m2', undefined],
  ])
  const again = told(['n1', 'booting', 0], ['n1', 'ready', 1], ['n1', 'draining', 2], ['n1', 'gone', 3], ['n1', 'booting', 9])
  expect(startsOf(nodes, again).get('n1')).toHaveLength(1)
})

test('boots of a machine are told by what they have reached', () => {
  const event = (seq: number, type: string, phase?: string, node = 'n1'): Event => ({
    seq,
    at: new Date(1000 * seq).toISOString(),
    type,
    text: '',
    machine: 'm1',
    ...(type.startsWith('node.') ? { cluster: 'cfd', node } : {}),
    ...(phase ? { phase: phase as NonNullable<Event['phase']> } : {}),
  })
  const boots = bootsOf([
    event(1, 'node.boot.root'), // which began before
    event(2, 'machine.phase', 'inspecting'),
    event(3, 'machine.boot.address'),
    event(4, 'machine.phase', 'available'),
    event(5, 'machine.phase', 'reserved'),
    event(6, 'node.phase', 'booting'),
    event(7, 'node.boot.address'),
    event(8, 'node.boot.problem'),
    event(9, 'node.phase', 'failed'),
    event(10, 'node.phase', 'attaching', 'n2'),
    event(11, 'machine.phase', 'in-use'),
    event(12, 'node.phase', 'booting', 'n2'),
  ])
  expect(boots.map((b) => [b.node, b.ended, b.steps.map((s) => s.phase).join(' ')])).toEqual([
    ['inspection', 'ready', 'booting address'],
    ['cfd/n1', 'failed', 'booting address'],
    ['cfd/n2', undefined, 'attaching booting'],
  ])
  expect(boots[0]?.steps).toEqual([
    { phase: 'booting', from: 2000, until: 3000 },
    { phase: 'address', from: 3000, until: 4000 },
  ])
})

test('whoever is no node any more is left out, and nothing is no time', () => {
  expect([...startsOf(nodes, told(['n9', 'booting', 0])).keys()]).toEqual(['n1', 'n2'])
  expect(spanOf([], 7)).toEqual({ from: 7, until: 8 })
})
