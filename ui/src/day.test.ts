import { expect, test } from 'vitest'

import { curvesOf } from './day'

const now = Date.parse('2026-11-30T12:00:00Z')

const moment = (ago: number, used: number, running = 0) => ({
  at: new Date(now - 60_000 * ago).toISOString(),
  clusters: {},
  nodes: {},
  machines: used ? { 'in-use': used } : {},
  running_jobs: running,
  pending_jobs: 0,
  due: 0,
  lag_seconds: 0,
})

test('what was never there has no curve', () => {
  expect(curvesOf([], 5, now)).toEqual([])
  expect(curvesOf([moment(5, 0)], 5, now)).toEqual([])
})

test('a moment is as high as its part of the most, where its step was in the day', () => {
  const curves = curvesOf([moment(1436, 1), moment(716, 4), moment(1, 3, 7)], 5, now)
  expect(curves.map((c) => [c.words, c.now, c.least, c.most])).toEqual([
    ['Machines in use', 3, 1, 4],
    ['Jobs running', 7, 0, 7],
  ])
  expect(curves[0]?.path).toBe('M0 100h5v-25h-5zM720 100h5v-100h-5zM1435 100h5v-75h-5z')
  expect(curves[1]?.path).toBe('M1435 100h5v-100h-5z')
})

test('what was last counted long ago is not now', () => {
  expect(curvesOf([moment(60, 2)], 5, now)[0]?.now).toBeUndefined()
})
