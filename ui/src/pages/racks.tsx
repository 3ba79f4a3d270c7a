// Racks as they stand: what each machine does, and where there is room. Machines are dragged to their places, or placed in a row.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type CSSProperties, type DragEvent, useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { machinesQuery, operates, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Choice, Count, Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Loaded, Panel, Wrong } from '../parts/panel'
import { toneOf } from '../parts/state'
import { useTitle } from '../parts/title'
import { count, quoted } from '../words'
import { matching } from './machines'
import './racks.css'

type Machine = Schemas['Machine']
type Location = Schemas['Location']

/** usual is how many units a rack has, unless a machine stands higher. */
const usual = 42

/** unitHeight is that of a unit on the screen, in pixels. */
const unitHeight = 24

const looks = {
  ok: ['busy', 'busy-r'],
  go: ['go', 'go-r'],
  warn: ['drain', 'warn-r'],
  bad: ['bad', 'bad-r'],
  rest: ['out', 'rest-r'],
  '': ['free', ''],
} as const

const byName = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true })

/** grouped are things by a key, in the order of the keys. */
const grouped = <T,>(all: T[], keyOf: (one: T) => string) => [...Map.groupBy(all, keyOf)].sort(([a], [b]) => byName(a, b))

/** usePlace says where a machine stands, and takes what the controller answers for what is so. */
function usePlace() {
  const queries = useQueryClient()
  return async (machine: string, location: Location | undefined) => {
    const body = location ? { location } : {}
    const now = await answer(api.PUT('/v1/machines/{machine}/location', { params: { path: { machine } }, body }))
    queries.setQueryData(machinesQuery.queryKey, (all) => all?.map((m) => (m.name === now.name ? now : m)))
    await queries.invalidateQueries({ queryKey: ['machine', machine] })
  }
}

const route = getRouteApi('/racks')

export function Racks() {
  useTitle('Racks')
  return <Loaded query={useQuery(machinesQuery)}>{(all) => <Floor all={all} />}</Loaded>
}

function Floor({ all }: { all: Machine[] }) {
  const { phase = '' } = route.useSearch()
  const acts = operates(useQuery(siteQuery).data)
  const place = usePlace()
  const [dragged, setDragged] = useState<Machine>()
  const [wrong, setWrong] = useState<Error>()
  const [placing, setPlacing] = useState(false)
  const whole = all.filter((m) => !m.part)
  const racks = grouped(
    whole.filter((m) => m.location),
    (m) => m.location?.rack ?? '',
  )
  const homeless = whole.filter((m) => !m.location)
  const phases = grouped(whole, (m) => m.phase)
  /** drop moves what is dragged, and nothing else that somebody lets fall here. */
  const drop = (to: Pick<Location, 'rack' | 'unit'> | undefined) => {
    if (!dragged) return
    setDragged(undefined)
    setWrong(undefined)
    const { height = 1, slot = 0 } = dragged.location ?? {}
    place(dragged.name, to && { ...to, height, slot }).catch((why: unknown) => setWrong(why as Error))
  }
  const onDrag = acts ? setDragged : undefined
  const units = Math.max(usual, ...whole.map((m) => (m.location ? top(m.location) : 0)))
  return (
    <>
      <div className="head">
        <div>
          <h1>Racks</h1>
          <p className="dim">{`${count(racks.length, 'rack')}, ${count(whole.length, 'machine')}`}</p>
        </div>
        {acts && (
          <div className="actions">
            <button type="button" className="btn main" onClick={() => setPlacing(true)}>
              <Icon name="plus" /> Place machines
            </button>
          </div>
        )}
      </div>
      <div className="chips">
        {[['', whole] as const, ...phases].map(([name, of]) => (
          <Link
            key={name}
            className="chip"
            to="/racks"
            search={name ? { phase: name } : {}}
            activeOptions={{ exact: true }}
            replace
          >
            <b>{of.length}</b> {name || 'all'}
          </Link>
        ))}
      </div>
      {wrong && <Wrong why={wrong} />}
      <div className="stack">
        {(homeless.length > 0 || (acts && racks.length > 0)) && (
          <Panel
            title="In no rack that is known"
            beside={acts && racks.length > 0 && <span className="dim">Drag machines from here to a unit, or back.</span>}
          >
            <div
              className="in homeless"
              onDragOver={(e) => dragged && e.preventDefault()}
              onDrop={(e) => {
                e.preventDefault()
                drop(undefined)
              }}
            >
              {homeless.map((m) => (
                <Box key={m.name} m={m} phase={phase} onDrag={onDrag} />
              ))}
            </div>
          </Panel>
        )}
        {racks.length > 0 && (
          <section className="panel" aria-label="Racks">
            <div className="floor" tabIndex={0} role="region" aria-label="Racks, side by side">
              <div className="us" aria-hidden="true" style={{ '--n': units } as CSSProperties}>
                <span />
                {Array.from({ length: units }, (_, i) => (
                  <span key={i}>{(units - i) % 5 === 0 || i === units - 1 ? units - i : ''}</span>
                ))}
              </div>
              {racks.map(([name, machines]) => (
                <Rack key={name} name={name} machines={machines} units={units} phase={phase} onDrag={onDrag} onDrop={drop} />
              ))}
            </div>
          </section>
        )}
      </div>
      {placing && <Place all={homeless} onClose={() => setPlacing(false)} />}
    </>
  )
}

/** top is the highest unit that something fills. */
const top = (l: Location) => l.unit + l.height - 1

type RackProps = {
  name: string
  machines: Machine[]
  units: number
  phase: string
  onDrag: OnDrag
  onDrop: (to: Pick<Location, 'rack' | 'unit'>) => void
}

function Rack({ name, machines, units, phase, onDrag, onDrop }: RackProps) {
  const drop = (e: DragEvent<HTMLDivElement>) => {
    e.preventDefault()
    const unit = units - Math.floor((e.clientY - e.currentTarget.getBoundingClientRect().top) / unitHeight)
    onDrop({ rack: name, unit: Math.min(Math.max(unit, 1), units) })
  }
  // What stands in slots of one chassis is beside each other in its units.
  const chassis = grouped(machines, (m) => (m.location?.slot ? `#${m.location.unit}` : m.name))
  return (
    <section className="rk" aria-label={`Rack ${name}`}>
      <h3>
        {name} <span>{machines.length}</span>
      </h3>
      <div className="u" style={{ '--n': units } as CSSProperties} onDragOver={(e) => onDrag && e.preventDefault()} onDrop={drop}>
        {chassis.map(([key, of]) => {
          const at = of.flatMap((m) => m.location ?? [])
          const peak = Math.max(...at.map(top))
          const rows = peak - Math.min(...at.map((l) => l.unit)) + 1
          const slots = Math.max(...at.map((l) => l.slot ?? 0))
          return (
            <div
              key={key}
              className="chassis"
              style={{
                gridRow: `${units - peak + 1} / span ${rows}`,
                gridTemplateColumns: `repeat(${Math.max(Math.ceil(slots / rows), 1)}, minmax(0, 1fr))`,
              }}
            >
              {of
                .toSorted((a, b) => (a.location?.slot ?? 0) - (b.location?.slot ?? 0))
                .map((m) => (
                  <Box key={m.name} m={m} phase={phase} onDrag={onDrag} />
                ))}
            </div>
          )
        })}
      </div>
    </section>
  )
}

type OnDrag = ((m: Machine | undefined) => void) | undefined

/** Box is a machine, with the cluster that has it; one in another phase than is looked for is faint. */
function Box({ m, phase, onDrag }: { m: Machine; phase: string; onDrag: OnDrag }) {
  const [mark, look] = looks[toneOf(m.phase)]
  const cluster = m.node?.split('/')[0]
  return (
    <Link
      to="/machines/$machine"
      params={{ machine: m.name }}
      className={`box ${phase && phase !== m.phase ? 'other' : look}`}
      title={m.reason}
      draggable={onDrag !== undefined}
      onDragStart={(e) => {
        e.dataTransfer.setData('text/plain', m.name) // without any, some browsers drag nothing
        onDrag?.(m)
      }}
      onDragEnd={() => onDrag?.(undefined)}
    >
      <i className={`m ${mark}`} aria-hidden="true" />
      {m.name}
      <span>{cluster}</span>
      <span className="sr">
        {m.phase}
        {m.location && `, unit ${m.location.unit}`}
      </span>
    </Link>
  )
}

/** highest is the highest unit that the API takes. */
const highest = 99

/** Place places machines above each other, from the lowest unit up, by their names. */
function Place({ all, onClose }: { all: Machine[]; onClose: () => void }) {
  const place = usePlace()
  const [filter, setFilter] = useState('')
  const [rack, setRack] = useState('')
  const [unit, setUnit] = useState(1)
  const [height, setHeight] = useState(1)
  const these = matching(all, filter).toSorted((a, b) => byName(a.name, b.name))
  const last = these.at(-1)
  const at = (i: number) => ({ rack, unit: unit + i * height, height })
  const command = (m: Machine, i: number) =>
    `muster machines place ${m.name} --rack ${quoted(rack || 'RACK')} --unit ${at(i).unit}${height > 1 ? ` --height ${height}` : ''}`
  return (
    <Ask
      title="Place machines"
      act="Place"
      ready={rack !== '' && these.length > 0 && top(at(these.length - 1)) <= highest}
      command={these.map(command).join('; ')}
      onAct={async () => {
        for (const [i, m] of these.entries()) {
          await place(m.name, at(i))
          setUnit(at(i + 1).unit) // another try goes on with those that are left
        }
      }}
      onClose={onClose}
    >
      <Text
        label="Which"
        value={filter}
        onChange={setFilter}
        placeholder="all that stand in no rack"
        hint="Words that are all to be found."
      />
      <Text label="Rack" value={rack} onChange={setRack} required />
      <div className="line gap-16 breaks">
        <Count label="From unit" value={unit} min={1} max={highest} onChange={setUnit} />
        <Count label="Units each" value={height} min={1} max={60} onChange={setHeight} />
      </div>
      <p className="dim">
        {these.length === 0
          ? 'There is no such machine.'
          : `${these[0]?.name}${last && these.length > 1 ? ` to ${last.name}` : ''}: units ${unit} to ${top(at(these.length - 1))}.`}
      </p>
    </Ask>
  )
}

/** Stands says of one machine where it stands. */
export function Stands({ m, onClose }: { m: Machine; onClose: () => void }) {
  const place = usePlace()
  const [known, setKnown] = useState<'there' | 'nowhere'>('there')
  const [l, setL] = useState({ rack: '', unit: 1, height: 1, slot: 0, ...m.location })
  const options = [`--rack ${quoted(l.rack || 'RACK')}`, `--unit ${l.unit}`]
  if (l.height > 1) options.push(`--height ${l.height}`)
  if (l.slot > 0) options.push(`--slot ${l.slot}`)
  return (
    <Ask
      title={`Where ${m.name} stands`}
      act="Place"
      ready={known === 'nowhere' || (l.rack !== '' && top(l) <= highest)}
      command={`muster machines place ${m.name} ${known === 'there' ? options.join(' ') : '--nowhere'}`}
      onAct={() => place(m.name, known === 'there' ? l : undefined)}
      onClose={onClose}
    >
      {m.location && (
        <Choice
          label="Where"
          value={known}
          values={[
            ['there', 'In a rack'],
            ['nowhere', 'In no rack that is known'],
          ]}
          onChange={setKnown}
        />
      )}
      {known === 'there' && (
        <>
          <Text label="Rack" value={l.rack} onChange={(rack) => setL({ ...l, rack })} required />
          <div className="line gap-16 breaks">
            <Count label="Lowest unit" value={l.unit} min={1} max={highest} onChange={(unit) => setL({ ...l, unit })} />
            <Count label="Units" value={l.height} min={1} max={60} onChange={(height) => setL({ ...l, height })} />
            <Count label="Slot, of a chassis" value={l.slot} min={0} max={20} onChange={(slot) => setL({ ...l, slot })} />
          </div>
        </>
      )}
    </Ask>
  )
}
