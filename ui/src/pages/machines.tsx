// The site's machines: find them, and act on many at once.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useMemo, useRef, useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { machinesQuery, operates, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Text, useTyped } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Loaded } from '../parts/panel'
import { Pill } from '../parts/state'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { count, quoted } from '../words'
import { Enrol, Unknown } from './enrol'

type Machine = Schemas['Machine']

const route = getRouteApi('/machines')

/** searched is what a filter looks in. */
const searched = (m: Machine) =>
  [m.name, m.phase, m.desired, m.substrate, m.network, m.node, m.reason, ...m.classes].join(' ').toLowerCase()

/** matching are the machines that all words of a filter are found in. */
export function matching(all: Machine[], filter: string): Machine[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean)
  return words.length === 0 ? all : all.filter((m) => words.every((w) => searched(m).includes(w)))
}

export function Machines() {
  useTitle('Machines')
  return <Loaded query={useQuery(machinesQuery)}>{(all) => <List all={all} />}</Loaded>
}

function List({ all }: { all: Machine[] }) {
  const { q = '' } = route.useSearch()
  const navigate = useNavigate()
  const [typed, type] = useTyped(q, (q) => void navigate({ to: '/machines', search: q ? { q } : {}, replace: true }))
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [asked, setAsked] = useState<{ act: Act; on: Machine[] }>()
  const [enrolled, setEnrolled] = useState<{ asked?: Schemas['UnknownMachine'] }>()
  const shown = useMemo(() => matching(all, typed), [all, typed])
  const acts = useActs()
  const these = shown.filter((m) => chosen.has(m.name))
  const choose = (names: string[], on: boolean) =>
    setChosen((before) => {
      const after = new Set(before)
      for (const name of names)
        if (on) after.add(name)
        else after.delete(name)
      return after
    })
  return (
    <>
      <div className="head">
        <div>
          <h1>Machines</h1>
          <p className="dim" role="status">
            {shown.length === all.length ? count(all.length, 'machine') : `${shown.length} of ${count(all.length, 'machine')}`}
            {these.length > 0 && `, ${these.length} chosen`}
          </p>
        </div>
        <div className="actions">
          {acts.map((a) => (
            <button
              type="button"
              className="btn"
              key={a.name}
              disabled={these.length === 0 || !these.every((m) => a.on?.(m) ?? true)}
              onClick={() => setAsked({ act: a, on: these })}
            >
              {a.words}
            </button>
          ))}
          {acts.length > 0 && (
            <button type="button" className="btn main" onClick={() => setEnrolled({})}>
              <Icon name="plus" /> Add machines
            </button>
          )}
        </div>
      </div>
      <Unknown onEnrol={acts.length > 0 ? (asked) => setEnrolled({ asked }) : undefined} />
      <section className="panel" aria-label="Machines">
        <header>
          <Icon name="filter" />
          <input
            className="filter"
            aria-label="Filter"
            placeholder="Words that are all to be found: a name, a phase, a class, a cluster"
            value={typed}
            onChange={(e) => type(e.target.value)}
          />
        </header>
        <Rows shown={shown} chosen={chosen} choose={choose} />
      </section>
      {asked && <Acting {...asked} onClose={() => setAsked(undefined)} />}
      {enrolled && <Enrol asked={enrolled.asked} onClose={() => setEnrolled(undefined)} />}
    </>
  )
}

/** height is that of a row, in pixels. */
const height = 36

type RowsProps = { shown: Machine[]; chosen: ReadonlySet<string>; choose: (names: string[], on: boolean) => void }

/** Rows shows a list of any length: only the rows on the screen are there. */
function Rows({ shown, chosen, choose }: RowsProps) {
  const place = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => place.current,
    estimateSize: () => height,
    overscan: 12,
  })
  const every = shown.length > 0 && shown.every((m) => chosen.has(m.name))
  return (
    <div className="vlist" ref={place} role="table" aria-label="Machines" aria-rowcount={shown.length + 1} tabIndex={0}>
      <div className="vrow vhead" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <input
            type="checkbox"
            aria-label="All that are shown"
            checked={every}
            onChange={(e) =>
              choose(
                shown.map((m) => m.name),
                e.target.checked,
              )
            }
          />
        </span>
        {['Machine', 'Phase', 'Since', 'Node', 'Classes', 'Why'].map((title) => (
          <span role="columnheader" key={title}>
            {title}
          </span>
        ))}
      </div>
      <div role="rowgroup" style={{ height: rows.getTotalSize(), position: 'relative' }}>
        {rows.getVirtualItems().map((row) => {
          const m = shown[row.index]
          return (
            m && (
              <div
                className="vrow"
                role="row"
                aria-rowindex={row.index + 2}
                key={m.name}
                style={{ position: 'absolute', insetInline: 0, top: 0, transform: `translateY(${row.start}px)` }}
              >
                <span role="cell">
                  <input
                    type="checkbox"
                    aria-label={m.name}
                    checked={chosen.has(m.name)}
                    onChange={(e) => choose([m.name], e.target.checked)}
                  />
                </span>
                <span role="cell" className="mono clip">
                  <Link to="/machines/$machine" params={{ machine: m.name }}>
                    {m.name}
                  </Link>
                </span>
                <span role="cell">
                  <Pill phase={m.phase} />
                </span>
                <span role="cell" className="num">
                  <Ago at={m.since} />
                </span>
                <span role="cell" className="clip">
                  {m.node}
                </span>
                <span role="cell" className="clip">
                  {m.classes.join(', ')}
                </span>
                <span role="cell" className="clip" title={m.reason}>
                  {m.reason}
                </span>
              </div>
            )
          )
        })}
      </div>
    </div>
  )
}

type Act = {
  name: string
  words: string
  said: string
  bad?: boolean
  reasoned?: boolean
  on?: (m: Machine) => boolean // machines that it can be done to; all
  do: (machine: string, reason: string) => Promise<Machine>
}

const path = (machine: string) => ({ params: { path: { machine } } })

const known: Act[] = [
  {
    name: 'inspect',
    words: 'Inspect',
    said: 'It is inspected as soon as it is free.',
    do: (m) => answer(api.POST('/v1/machines/{machine}/inspect', path(m))),
  },
  {
    name: 'maintain',
    words: 'Maintain',
    said: 'It leaves service as soon as it is free.',
    do: (m) => answer(api.POST('/v1/machines/{machine}/maintain', path(m))),
  },
  {
    name: 'free',
    words: 'Free',
    said: 'It goes back into service, out of maintenance or quarantine.',
    do: (m) => answer(api.POST('/v1/machines/{machine}/free', path(m))),
  },
  {
    name: 'quarantine',
    words: 'Quarantine',
    said: 'It leaves service now. A node on it is ended and replaced, and its jobs are queued again.',
    bad: true,
    reasoned: true,
    do: (m, reason) => answer(api.POST('/v1/machines/{machine}/quarantine', { ...path(m), body: reason ? { reason } : {} })),
  },
  {
    name: 'drain',
    words: 'Drain',
    said: 'Its guests move to other hosts while they run, or are replaced there once their jobs have ended. Then it leaves service.',
    on: (m) => m.hosts !== undefined,
    do: (m) => answer(api.POST('/v1/machines/{machine}/drain', path(m))),
  },
  {
    name: 'remove',
    words: 'Remove',
    said: 'It leaves the inventory as soon as it is free, with all that is known of it.',
    bad: true,
    do: (m) => answer(api.DELETE('/v1/machines/{machine}', path(m))),
  },
]

/** useActs are the acts that somebody may do to machines. */
export function useActs(): Act[] {
  return operates(useQuery(siteQuery).data) ? known : []
}

/** Acting does one thing to several machines, and says of each that refuses why. Another try is for those alone. */
export function Acting({ act, on, onClose }: { act: Act; on: Machine[]; onClose: () => void }) {
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const [left, setLeft] = useState(on)
  const run = async () => {
    const refused = new Map<string, string>()
    for (const m of left)
      try {
        const now = await act.do(m.name, reason)
        queries.setQueryData(machinesQuery.queryKey, (all) => all?.map((one) => (one.name === now.name ? now : one)))
        await queries.invalidateQueries({ queryKey: ['machine', m.name] })
      } catch (why) {
        refused.set(m.name, (why as Error).message || 'no answer')
      }
    setLeft(left.filter((m) => refused.has(m.name)))
    if (refused.size > 0) throw new Error([...refused].map(([name, why]) => `${name}: ${why}`).join('; '))
  }
  const names = left.map((m) => m.name)
  return (
    <Ask
      title={`${act.words} ${names.length === 1 ? names[0] : count(names.length, 'machine')}`}
      act={act.words}
      bad={act.bad ?? false}
      command={`muster machines ${act.name} ${names.join(' ')}${reason ? ` --reason ${quoted(reason)}` : ''}`}
      onAct={run}
      onClose={onClose}
    >
      <p className="dim">{act.said}</p>
      {act.reasoned && <Text label="Why" value={reason} onChange={setReason} hint="For other operators." />}
    </Ask>
  )
}
