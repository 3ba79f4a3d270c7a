// What a machine is made of, as its last inspection found it, and what its nodes measured before they were handed over.
import { queryOptions, useQuery } from '@tanstack/react-query'

import { api, type Schemas, whole } from '../api'
import { Loaded, Panel } from '../parts/panel'
import { Pill } from '../parts/state'
import { Listed, Table } from '../parts/table'
import { Ago } from '../parts/time'
import { mebibytes, percent } from '../words'

/** near is a NUMA node; a negative one is not known. */
const near = (x: { numa: number }) => (x.numa < 0 ? '' : x.numa)

export function Made({ f }: { f: Schemas['Facts'] }) {
  return (
    <>
      <Listed
        label="Disks"
        rows={f.disks}
        of={(d) => d.name}
        columns={[
          ['Disk', (d) => d.name, 'mono'],
          ['Size', (d) => `${d.size_gb} GB`, 'right'],
          ['Kind', (d) => d.kind],
          ['Model', (d) => d.model],
          ['Serial', (d) => d.serial, 'mono'],
          ['Health', (d) => d.health ?? (d.healthy ? '' : 'not healthy'), 'wrap'],
        ]}
      />
      <Listed
        label="Network interfaces"
        rows={f.nics}
        of={(n) => n.name}
        columns={[
          ['Interface', (n) => n.name, 'mono'],
          ['MAC', (n) => n.mac, 'mono'],
          ['Link', (n) => (n.up ? (n.speed_mbps ? `${n.speed_mbps} Mb/s` : 'up') : 'down')],
          ['Driver', (n) => n.driver],
          ['NUMA node', near, 'right'],
        ]}
      />
      <Listed
        label="Memory and CPUs by NUMA node"
        rows={f.numa}
        of={(n) => String(n.id)}
        columns={[
          ['NUMA node', (n) => n.id],
          ['CPUs', (n) => n.cpus, 'mono'],
          ['Memory', (n) => mebibytes(n.memory_mib), 'right'],
        ]}
      />
      <Listed
        label="Memory modules"
        rows={f.dimms}
        of={(d) => d.slot}
        columns={[
          ['Slot', (d) => d.slot],
          ['Size', (d) => mebibytes(d.size_mib), 'right'],
          ['Speed', (d) => d.speed],
        ]}
      />
      <Listed
        label="Devices"
        rows={f.devices}
        of={(d) => d.pci}
        columns={[
          ['Address', (d) => d.pci, 'mono'],
          ['Kind', (d) => d.kind],
          ['Name', (d) => d.name ?? `${d.vendor}:${d.id}`, 'wrap'],
          ['Driver', (d) => d.driver],
          ['NUMA node', near, 'right'],
          ['Note', (d) => d.lost ?? d.host, 'wrap'],
        ]}
      />
      <Listed label="Who may log in at its BMC" rows={f.bmc} of={(line) => line} columns={[['Who', (line) => line, 'wrap']]} />
    </>
  )
}

const testsQuery = (machine: string) =>
  queryOptions({
    queryKey: ['machine', machine, 'tests'],
    queryFn: () => whole(() => api.GET('/v1/machines/{machine}/test-results', { params: { path: { machine } } })),
    staleTime: 0,
  })

/** quantities are what a test measures, with the words that fit above a column. */
const quantities = [
  ['memory', 'Memory'],
  ['compute', 'Compute'],
  ['head-round-trip', 'To the head and back'],
  ['head-throughput', 'To the head'],
  ['neighbour-round-trip', 'To a neighbour and back'],
  ['neighbour-throughput', 'To a neighbour'],
] as const satisfies (readonly [Schemas['Result']['quantity'], string])[]

/** measured is a value with its share of what its like have: "5.24 GB/s, 141 %". */
function measured(r: Schemas['Result'] | undefined): string {
  if (!r?.value) return ''
  const value = `${Number(r.value.toPrecision(3))} ${r.unit}`
  return r.median ? `${value}, ${percent(r.value / r.median)}` : value
}

/** Measured are the acceptance tests of a machine, the newest first. */
export function Measured({ machine }: { machine: string }) {
  return (
    <Panel title="Acceptance tests" beside={<span className="dim">with their share of what its like measure</span>}>
      <Loaded query={useQuery(testsQuery(machine))}>
        {(all) => (
          <Table
            label="Acceptance tests"
            rows={all}
            of={(t) => `${t.at} ${t.cluster} ${t.node} ${t.number}`}
            none="No node on it has been tested."
            columns={[
              ['When', (t) => <Ago at={t.at} />],
              ['Node', (t) => `${t.cluster}/${t.node}`],
              ['Verdict', (t) => <Pill phase={t.verdict} />],
              ...quantities.map(
                ([quantity, words]) =>
                  [
                    words,
                    (t: Schemas['TestResult']) => measured(t.results.find((r) => r.quantity === quantity)),
                    'right',
                  ] as const,
              ),
              ['Why', (t) => t.text, 'wrap'],
            ]}
          />
        )}
      </Loaded>
    </Panel>
  )
}
