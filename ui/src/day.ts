// A day of the site as curves.
import type { Schemas } from './api'

type Moment = Schemas['Moment']

/** Curve is one quantity through a day: how much it was last, unless that is long ago, at least and at most, and its picture. */
export type Curve = { words: string; now: number | undefined; least: number; most: number; path: string }

const minutes = 24 * 60

const quantities: readonly (readonly [words: string, of: (m: Moment) => number])[] = [
  ['Machines in use', (m) => m.machines['in-use'] ?? 0],
  ['Machines available', (m) => m.machines.available ?? 0],
  ['Machines in quarantine', (m) => m.machines.quarantined ?? 0],
  ['Clusters ready', (m) => m.clusters.ready ?? 0],
  ['Clusters degraded', (m) => m.clusters.degraded ?? 0],
  ['Nodes ready', (m) => m.nodes.ready ?? 0],
  ['Nodes failed', (m) => m.nodes.failed ?? 0],
  ['Jobs running', (m) => m.running_jobs],
  ['Jobs pending', (m) => m.pending_jobs],
  ['Work late, s', (m) => Math.round(m.lag_seconds)],
]

/**
 * curvesOf are the quantities of a day that were ever above 0. A picture is 1440 wide, a minute each, and 100 high; each moment fills
 * the `step` minutes that it is the last of. Minutes of which nothing is known are empty.
 */
export function curvesOf(day: readonly Moment[], step: number, now: number): Curve[] {
  const last = day[day.length - 1]
  const fresh = last && now - Date.parse(last.at) < 2 * step * 60_000
  return quantities.flatMap(([words, of]) => {
    const all = day.map(of)
    const most = Math.max(0, ...all)
    if (most === 0) return []
    const path = day.map((m, i) => {
      const x = minutes - Math.round(now / 60_000) + step * Math.floor(Date.parse(m.at) / 60_000 / step)
      const high = Math.round((1000 * (all[i] ?? 0)) / most) / 10
      return high === 0 ? '' : `M${x} 100h${step}v${-high}h${-step}z`
    })
    return [{ words, now: fresh ? of(last) : undefined, least: Math.min(...all), most, path: path.join('') }]
  })
}
