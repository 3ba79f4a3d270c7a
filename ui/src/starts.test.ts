import { expect, test } from 'vitest'

import type { Event } from './api'
import { spanOf, startsOf } from './starts'

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

test('whoever is no node any more is left out, and nothing is no time', () => {
  expect([...startsOf(nodes, told(['n9', 'booting', 0])).keys()]).toEqual(['n1', 'n2'])
  expect(spanOf([], 7)).toEqual({ from: 7, until: 8 })
})
