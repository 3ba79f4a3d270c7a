// Machines that have asked to boot and are not enrolled, and enrolling them or others.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { answer, api, type Schemas, whole } from '../api'
import { machinesQuery, networksQuery } from '../data'
import { Ask } from '../parts/ask'
import { Choice, Count, Pick, Text } from '../parts/fields'
import { Wrong } from '../parts/panel'
import { Listed } from '../parts/table'
import { Ago } from '../parts/time'
import { mebibytes, quoted } from '../words'

type Unknown = Schemas['UnknownMachine']

const unknownQuery = queryOptions({
  queryKey: ['unknown'],
  queryFn: () => whole((page) => api.GET('/v1/unknown-machines', { params: { query: page } })),
  staleTime: 0,
  refetchInterval: 10_000, // they ask again without an event
})

export function Unknown({ onEnrol }: { onEnrol: ((m: Unknown) => void) | undefined }) {
  const query = useQuery(unknownQuery)
  if (query.error && !query.data) return <Wrong why={query.error} />
  return (
    <Listed
      label="Not enrolled"
      beside={<span className="dim">They have asked to boot. What they say of themselves is not verified.</span>}
      rows={query.data}
      of={(m) => m.mac}
      columns={[
        ['MAC', (m) => m.mac, 'mono'],
        ['Network', (m) => m.network],
        ['Asked', (m) => <Ago at={m.last_seen} />],
        ['CPUs', (m) => m.facts.cpus || '', 'right'],
        ['Memory', (m) => m.facts.memory_mib && mebibytes(m.facts.memory_mib), 'right'],
        ['System', (m) => m.facts.system?.product, 'wrap'],
        ['Serial', (m) => m.facts.system?.serial, 'mono'],
        [
          '',
          (m) =>
            onEnrol && (
              <button type="button" className="btn quiet small" onClick={() => onEnrol(m)}>
                Enrol<span className="sr"> {m.mac}</span>
              </button>
            ),
        ],
      ]}
    />
  )
}

/** most is how many machines of the controller's host are made at once. */
const most = 1000

/** listOf are the words of a list that somebody types. */
const listOf = (text: string) => text.split(/[\s,]+/).filter(Boolean)

/** Enrol takes in a machine: one that has asked, or one that is described; or more of the controller's own host. */
export function Enrol({ asked, onClose }: { asked: Unknown | undefined; onClose: () => void }) {
  const queries = useQueryClient()
  const query = useQuery(networksQuery)
  const networks = query.data ?? []
  const [kind, setKind] = useState<Schemas['EnrolmentBody']['substrate']>('metal')
  const [number, setNumber] = useState(1)
  const [name, setName] = useState('')
  const [macs, setMACs] = useState(asked?.mac ?? '')
  const [chosen, setNetwork] = useState(asked?.network)
  const [ports, setPorts] = useState('')
  const [power, setPower] = useState('')
  const [credentials, setCredentials] = useState('')
  const network = chosen ?? networks[0]?.name ?? ''
  const switched = !['none', undefined].includes(networks.find((n) => n.name === network)?.switch)
  const described = {
    name,
    macs: listOf(macs),
    network,
    power,
    ...(switched && { ports: listOf(ports) }),
    ...(credentials && { credentials }),
  }
  const words = ['muster machines add']
  if (kind === 'local') words.push(`--local ${number}`)
  else {
    words.push(quoted(name || 'NAME'), ...described.macs.map((mac) => `--mac ${quoted(mac)}`))
    words.push(...(described.ports ?? []).map((port) => `--port ${quoted(port)}`), `--power ${quoted(power || 'CONTROL')}`)
    if (network) words.push(`--network ${quoted(network)}`)
    if (credentials) words.push(`--credentials ${quoted(credentials)}`)
  }
  return (
    <Ask
      title={asked ? `Enrol ${asked.mac}` : 'Add machines'}
      act="Enrol"
      ready={
        kind === 'local' ||
        (name !== '' && described.macs.length > 0 && network !== '' && power !== '' && (!switched || ports !== ''))
      }
      command={words.join(' ')}
      onAct={async () => {
        const body = kind === 'local' ? { substrate: kind, count: number } : { substrate: kind, count: 1, machines: [described] }
        await answer(api.POST('/v1/machines', { body }))
        await Promise.all([machinesQuery, unknownQuery].map(({ queryKey }) => queries.invalidateQueries({ queryKey })))
      }}
      onClose={onClose}
    >
      {!asked && (
        <Choice
          label="What"
          value={kind}
          values={[
            ['metal', 'A whole machine'],
            ['local', 'Of the controller’s host'],
          ]}
          onChange={setKind}
        />
      )}
      {kind === 'local' ? (
        <Count label="How many" value={number} min={1} max={most} onChange={setNumber} />
      ) : (
        <>
          {query.error && <Wrong why={query.error} />}
          <Text label="Name" value={name} onChange={setName} required />
          <Text label="MACs" value={macs} onChange={setMACs} hint="Of its NICs on the network that it boots from." required />
          <Pick
            label="Network"
            value={network}
            values={networks.map(({ name = '' }) => [name, name] as const)}
            onChange={setNetwork}
            hint={query.data?.length === 0 && 'There is none: muster networks add declares one.'}
          />
          {switched && (
            <Text
              label="Ports of the switch"
              value={ports}
              onChange={setPorts}
              hint="One for each MAC, in their order."
              required
            />
          )}
          <Text
            label="Power"
            value={power}
            onChange={setPower}
            placeholder="redfish://10.0.9.2"
            hint="wol, ipmi://HOST, redfish://HOST or command:PROGRAM."
            required
          />
          <Text
            label="Credentials"
            value={credentials}
            onChange={setCredentials}
            placeholder="secret:bmc"
            hint="Where the controller finds user:password of its BMC: a file in secrets.d of its data directory."
          />
        </>
      )}
    </Ask>
  )
}
