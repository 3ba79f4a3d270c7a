// One's own ways in: SSH keys, tokens, logins. New ones are made on the command line: a browser makes no other way in.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { answer, api, type Schemas, whole } from '../api'
import { siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Command, Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago, Until } from '../parts/time'
import { useTitle } from '../parts/title'

const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: () => whole((page) => api.GET('/v1/keys', { params: { query: page } })),
  staleTime: 0,
})
const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: () => whole((page) => api.GET('/v1/tokens', { params: { query: page } })),
  staleTime: 0,
})

export function Access() {
  useTitle('Keys and tokens')
  const site = useQuery(siteQuery).data
  const own = site?.token
  const keeps = site?.scope === 'all' && !site.only
  const [ending, setEnding] = useState<{ key: Schemas['Key'] } | { token: Schemas['Token'] }>()
  return (
    <>
      <div className="head">
        <h1>Keys and tokens</h1>
      </div>
      <div className="stack">
        <Panel title="SSH keys" more={<Command text="muster keys add" />}>
          <Loaded query={useQuery(keysQuery)}>
            {(keys) => (
              <Table
                label="SSH keys"
                rows={keys}
                of={(k) => k.fingerprint}
                columns={[
                  ['Fingerprint', (k) => k.fingerprint, 'mono'],
                  ['Comment', (k) => k.line.split(' ').slice(2).join(' ')],
                  ['Since', (k) => <Ago at={k.created_at} />],
                  ['', (k) => keeps && <End onClick={() => setEnding({ key: k })} words="Remove" />],
                ]}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Tokens and logins" more={<Command text="muster tokens add WHAT" />}>
          <Loaded query={useQuery(tokensQuery)}>
            {(tokens) => (
              <Table
                label="Tokens and logins"
                rows={tokens}
                of={(t) => t.id}
                columns={[
                  ['For what', (t) => t.name],
                  ['Kind', (t) => (t.id === own ? `${t.kind}, of this browser` : t.kind)],
                  ['May', (t) => (t.scope === 'read' ? 'look' : 'all that you may') + (t.project ? ` in ${t.project}` : '')],
                  ['Used', (t) => (t.used_at ? <Ago at={t.used_at} /> : 'never')],
                  ['Ends in', (t) => t.expires_at && <Until at={t.expires_at} />],
                  ['', (t) => keeps && t.kind !== 'local' && <End onClick={() => setEnding({ token: t })} words="Revoke" />],
                ]}
              />
            )}
          </Loaded>
        </Panel>
      </div>
      {ending && <Ending what={ending} own={own} onClose={() => setEnding(undefined)} />}
    </>
  )
}

function End({ words, onClick }: { words: string; onClick: () => void }) {
  return (
    <span className="line end">
      <button type="button" className="btn quiet small" onClick={onClick}>
        {words}
      </button>
    </span>
  )
}

type What = { key: Schemas['Key'] } | { token: Schemas['Token'] }

function Ending({ what, own, onClose }: { what: What; own: string | undefined; onClose: () => void }) {
  const queries = useQueryClient()
  if ('key' in what)
    return (
      <Ask
        title="Remove this key"
        act="Remove"
        bad
        command={`muster keys delete ${what.key.fingerprint}`}
        onAct={async () => {
          await answer(api.DELETE('/v1/keys/{fingerprint}', { params: { path: { fingerprint: what.key.fingerprint } } }))
          await queries.invalidateQueries({ queryKey: keysQuery.queryKey })
        }}
        onClose={onClose}
      >
        <p className="dim">Sessions that it opened end.</p>
        <p className="mono">{what.key.fingerprint}</p>
      </Ask>
    )
  return (
    <Ask
      title={`Revoke ${what.token.name}`}
      act="Revoke"
      bad
      command={`muster tokens revoke ${what.token.id}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/tokens/{token}', { params: { path: { token: what.token.id } } }))
        await queries.invalidateQueries({ queryKey: tokensQuery.queryKey })
      }}
      onClose={onClose}
    >
      <p className="dim">
        Programs that hold it are let in no more, and browsers that were signed in with it.
        {what.token.id === own && ' This browser is one of them.'}
      </p>
    </Ask>
  )
}
