// One machine: what it does, what it is made of, what it measured, and the proof of its last release.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { Boots } from '../parts/boots'
import { Feed } from '../parts/feed'
import { Facts, Loaded, Panel } from '../parts/panel'
import { Pill } from '../parts/state'
import { Listed, Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes, count, mebibytes, stands } from '../words'
import { Acting, useActs } from './machines'
import { Made, Measured } from './made'
import { Stands } from './racks'

const route = getRouteApi('/machines/$machine')

type Machine = Schemas['Machine']

const machineQuery = (machine: string) =>
  queryOptions({
    queryKey: ['machine', machine],
    queryFn: () => answer(api.GET('/v1/machines/{machine}', { params: { path: { machine } } })),
    staleTime: 0,
  })

export function Machine() {
  const { machine } = route.useParams()
  useTitle(machine)
  return <Loaded query={useQuery(machineQuery(machine))}>{(m) => <Shown m={m} />}</Loaded>
}

function Shown({ m }: { m: Machine }) {
  const acts = useActs()
  const [act, setAct] = useState<(typeof acts)[number]>()
  const [placing, setPlacing] = useState(false)
  const s = m.summary
  const f = m.facts
  const facts: [string, ReactNode][] = [
    ['Node', m.node],
    ['Classes', m.classes.join(', ')],
    ['Stands in', m.location && stands(m.location)],
    ['Part of', m.part?.host],
    ['Moves to', m.part?.moves_to],
    ['System', [f?.system?.vendor, f?.system?.product, f?.system?.serial].filter(Boolean).join(' ')],
    ['Firmware', f?.system?.firmware],
    ['Kernel', f?.kernel],
    ['Processor', s.cpu_model],
    ['Cores', s.cores && `${s.cores} in ${count(s.sockets ?? 0, 'socket')}`],
    ['Memory', s.memory_mib && mebibytes(s.memory_mib)],
    ['Memory bandwidth', f?.triad_gbs && `${f.triad_gbs.toFixed(1)} GB/s`],
    ['Boots from', m.network],
    ['MACs', m.macs?.join(', ')],
    ['Switch ports', m.switch_ports?.join(', ')],
    ['Power', m.power],
    ['Substrate', m.substrate],
  ]
  return (
    <>
      <div className="head">
        <div>
          <h1 className="line">
            {m.name} <Pill phase={m.phase} />
          </h1>
          <p className="dim">
            for <Ago at={m.since} />
            {m.reason && `: ${m.reason}`}
          </p>
        </div>
        <div className="actions">
          {acts
            .filter((a) => a.on?.(m) ?? true)
            .map((a) => (
              <button type="button" className="btn" key={a.name} onClick={() => setAct(a)}>
                {a.words}
              </button>
            ))}
          {acts.length > 0 && !m.part && (
            <button type="button" className="btn" onClick={() => setPlacing(true)}>
              Place
            </button>
          )}
        </div>
      </div>
      <div className="cols">
        <div className="stack">
          {m.release && <Released r={m.release} />}
          <Listed
            label="Ports on fabrics"
            rows={m.ports}
            of={(p) => p.fabric + p.port}
            columns={[
              ['Fabric', (p) => p.fabric],
              ['Port', (p) => p.port, 'mono'],
              ['Answers', (p) => (p.answers ? 'yes' : 'no')],
              ['Partitions', (p) => p.entries.join(' '), 'wrap'],
            ]}
          />
          {m.hosts && (
            <Panel title="Guests" beside={<span className="dim">{`${m.hosts.cores} of ${m.hosts.of_cores} cores`}</span>}>
              <div className="in">{m.hosts.guests.join(', ') || 'None.'}</div>
            </Panel>
          )}
          <Boots machine={m.name} />
          <Measured machine={m.name} />
          <Panel title="Events">
            <Feed machine={m.name} />
          </Panel>
          {f && <Made f={f} />}
        </div>
        <div className="stack">
          <Panel title="About">
            <Facts of={facts} />
          </Panel>
        </div>
      </div>
      {placing && <Stands m={m} onClose={() => setPlacing(false)} />}
      {act && <Acting act={act} on={[m]} onClose={() => setAct(undefined)} />}
    </>
  )
}

function Released({ r }: { r: Schemas['Release'] }) {
  return (
    <Panel
      title="Last release"
      beside={<span className={r.clean ? 't-ok' : 't-bad'}>{r.clean ? 'every disk erased and read back' : 'not clean'}</span>}
      more={<Ago at={r.at} />}
    >
      <Table
        label="Disks"
        rows={r.disks}
        of={(d) => d.disk}
        none={`No disk. ${r.power}`}
        columns={[
          ['Disk', (d) => d.disk, 'mono'],
          ['Size', (d) => bytes(d.bytes), 'right'],
          ['How', (d) => d.method, 'wrap'],
          ['Read back', (d) => d.error ?? d.verified, 'wrap'],
        ]}
      />
    </Panel>
  )
}
