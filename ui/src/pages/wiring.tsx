// How a fabric is cabled: its switches in levels, and below each leaf the ports of hosts, by partition.
import { useState } from 'react'

import type { Schemas } from '../api'
import { count } from '../words'
import './wiring.css'

type Topology = Schemas['Topology']
type Switch = Schemas['TopologySwitch']
type Difference = Schemas['FabricDifference']

/** hues are how many colours tell partitions apart; a name stands beside each. */
const hues = 8

const byName = (a: Switch, b: Switch) => a.name.localeCompare(b.name, 'en', { numeric: true })

/** levels are the leaves, those that they have cables to, and so on. A switch that no host reaches is in none. */
function levels({ switches, links }: Topology): Switch[][] {
  const near = new Map<string, string[]>()
  for (const { a, b } of links) {
    near.set(a, [...(near.get(a) ?? []), b])
    near.set(b, [...(near.get(b) ?? []), a])
  }
  const rows: Switch[][] = []
  let row = switches.filter((s) => s.ports.length > 0)
  const rest = new Map(switches.filter((s) => s.ports.length === 0).map((s) => [s.id, s]))
  while (row.length > 0) {
    rows.push(row.sort(byName))
    const above = new Set(row.flatMap((s) => near.get(s.id) ?? []).filter((id) => rest.has(id)))
    row = [...above].map((id) => rest.get(id)!)
    above.forEach((id) => rest.delete(id))
  }
  return rows
}

/** Mark is how a port is: with its key, without it, with one that it must not have, silent, or in no partition. */
type Mark = '' | 'lack' | 'over' | 'mute' | 'free'

const marks: readonly (readonly [Mark, string])[] = [
  ['', 'holds its key'],
  ['lack', 'lacks its key'],
  ['over', 'holds another’s'],
  ['mute', 'does not answer'],
  ['free', 'in no partition'],
]

const markOf = (d: Difference | undefined, partition: string): Mark => {
  if (d?.surplus) return 'over'
  if (d?.silent) return 'mute'
  return d?.missing ? 'lack' : partition ? '' : 'free'
}

type Props = {
  topology: Topology
  partitions: { key: string; name: string; ports: Set<string> }[] // of clusters, and of the site itself
  differing: Map<string, Difference> // ports, by GUID
}

/** Wiring is a map of a fabric. A partition that is pressed shows where it lies. */
export function Wiring({ topology, partitions, differing }: Props) {
  const [chosen, choose] = useState('')
  const rows = levels(topology)
  const leaves = rows[0] ?? []
  const index = new Map(partitions.map((p, i) => [p.key, i]))
  const of = new Map(partitions.flatMap((p) => [...p.ports].map((port) => [port, p] as const)))
  const hueOf = (key: string) => `w w${((index.get(key) ?? 0) % hues) + 1}`
  const on = new Set(leaves.filter((s) => s.ports.some((port) => chosen && of.get(port)?.key === chosen)).map((s) => s.id))
  const columns = Math.max(leaves.length, 1)
  return (
    <div
      className={chosen ? 'in wiring chosen' : 'in wiring'}
      tabIndex={0}
      role="region"
      aria-label={`Map of ${topology.fabric}`}
    >
      <div className={chosen ? hueOf(chosen) : undefined} style={{ minWidth: `${columns * 92}px` }}>
        {rows.slice(1).map((_, i) => {
          const upper = rows.length - 1 - i
          return <Tier key={upper} topology={topology} rows={rows} upper={upper} on={on} />
        })}
        <div className="leaves" style={{ gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
          {leaves.map((leaf) => {
            const groups = [...Map.groupBy(leaf.ports, (port) => of.get(port)?.key ?? '')]
            groups.sort(([a], [b]) => (index.get(a) ?? partitions.length) - (index.get(b) ?? partitions.length))
            return (
              <div key={leaf.id} className={on.has(leaf.id) ? 'leaf on' : 'leaf'}>
                <div className="sw">
                  {leaf.name}
                  <small>{count(cablesOf(topology, leaf), 'cable')}</small>
                </div>
                {groups.map(([key, ports]) => {
                  const name = partitions[index.get(key) ?? -1]?.name ?? 'in none'
                  const seen = ports.map((port) => markOf(differing.get(port), key))
                  const amiss = marks
                    .map(([mark, words]) => [seen.filter((one) => one === mark).length, words, mark] as const)
                    .filter(([n, , mark]) => n > 0 && mark !== '' && mark !== 'free')
                    .map(([n, words]) => `, of which ${n} ${words}`)
                  const tiles = (
                    <span className="ps" role="img" aria-label={count(ports.length, 'port') + amiss.join('')}>
                      {seen.map((mark, i) => (
                        <i key={ports[i]} className={`pt ${mark}`} />
                      ))}
                    </span>
                  )
                  return (
                    <div
                      key={key}
                      className={['grp', key && hueOf(key), key && key === chosen && 'on'].filter(Boolean).join(' ')}
                    >
                      {key ? (
                        <button type="button" aria-pressed={key === chosen} onClick={() => choose(key === chosen ? '' : key)}>
                          <i className="dot" aria-hidden="true" />
                          <span>{name}</span>
                          <b>{ports.length}</b>
                        </button>
                      ) : (
                        <p>
                          {name} <b>{ports.length}</b>
                        </p>
                      )}
                      {tiles}
                    </div>
                  )
                })}
              </div>
            )
          })}
        </div>
      </div>
      <div className="legend w w1" aria-hidden="true">
        {marks.map(([mark, words]) => (
          <span key={mark}>
            <i className={`pt ${mark}`} /> {words}
          </span>
        ))}
      </div>
    </div>
  )
}

const cablesOf = ({ links }: Topology, { id }: Switch) =>
  links.filter((l) => l.a === id || l.b === id).reduce((sum, l) => sum + l.cables, 0)

/** Tier is a row of switches with its cables to the row below. */
function Tier({ topology, rows, upper, on }: { topology: Topology; rows: Switch[][]; upper: number; on: Set<string> }) {
  const above = rows[upper] ?? []
  const below = rows[upper - 1] ?? []
  const at = (row: Switch[]) => new Map(row.map((s, i) => [s.id, ((i + 0.5) / row.length) * 1000]))
  const [up, down] = [at(above), at(below)]
  const lines = topology.links.flatMap(({ a, b, cables }) => {
    const [from, to] = up.has(a) ? [a, b] : [b, a]
    const [x, y] = [up.get(from), down.get(to)]
    return x === undefined || y === undefined ? [] : [{ key: `${a} ${b}`, x, y, to, cables }]
  })
  const most = Math.max(...lines.map((l) => l.cables))
  const least = Math.min(...lines.map((l) => l.cables))
  return (
    <>
      <div className="spines">
        {above.map((s) => (
          <div className="sw" key={s.id}>
            {s.name}
            <small>{count(cablesOf(topology, s), 'cable')}</small>
          </div>
        ))}
      </div>
      <svg className="cables" viewBox="0 0 1000 112" preserveAspectRatio="none" aria-hidden="true">
        {lines.map(({ key, x, y, to, cables }) => (
          <path
            key={key}
            className={[cables === most && most > least && 'fat', on.has(to) && 'on'].filter(Boolean).join(' ')}
            d={`M${x} 0C${x} 60 ${y} 52 ${y} 112`}
          />
        ))}
      </svg>
    </>
  )
}
