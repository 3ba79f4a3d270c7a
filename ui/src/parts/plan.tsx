// What a change would do, as the controller says it.
import { keepPreviousData, useQuery } from '@tanstack/react-query'

import type { Schemas } from '../api'
import { quotaQuery } from '../data'
import { clock, count, money, span } from '../words'
import { useSettled } from './fields'
import { Icon } from './icon'
import { Bones, Facts, Wrong } from './panel'

type Plan = Schemas['Answer']

/**
 * usePlan asks what a change would do, a moment after somebody has written it down. of is all that the plan depends on; '': nothing
 * is asked, as while it does not ask. The plan is fresh when it is of what is written now.
 */
export function usePlan(of: string, ask: () => Promise<Plan>, asks = true) {
  const settled = useSettled(of, 300)
  const query = useQuery({
    queryKey: ['plan', settled],
    queryFn: ask,
    enabled: asks && settled !== '' && settled === of,
    gcTime: 0,
    retry: false,
    staleTime: 0,
    placeholderData: keepPreviousData,
  })
  return { ...query, fresh: settled === of && query.isSuccess && !query.isPlaceholderData && !query.isFetching }
}

/** Planned shows a plan, or why there is none. */
export function Planned({ plan }: { plan: ReturnType<typeof usePlan> }) {
  return (
    <div className="planned">
      {plan.error ? (
        <Wrong why={plan.error} />
      ) : plan.data ? (
        <div className={plan.fresh ? undefined : 'faint'}>
          <Effects plan={plan.data} />
        </div>
      ) : (
        <Bones />
      )}
    </div>
  )
}

/** Effects are what a plan changes. */
export function Effects({ plan }: { plan: Omit<Plan, 'fits_at'> & { fits_at?: string | undefined } }) {
  const price = plan.price ? money(plan.price) : undefined
  const total = plan.total ? money(plan.total) : undefined
  return (
    <div className="stack gap-12">
      {plan.fits_at && (
        <div className="note warn">
          <Icon name="clock" />
          <b>It can start at {clock(new Date(plan.fits_at), new Date())}.</b>
        </div>
      )}
      {plan.ready_in && (
        <p className="dim">
          Nodes like these were ready in {span(plan.ready_in.low_seconds)} to {span(plan.ready_in.high_seconds)}.
        </p>
      )}
      {plan.messages.map((m) => (
        <p key={m} className="dim">
          {m}
        </p>
      ))}
      <ul className="effects">
        {plan.changes.map((c) => (
          <li key={c.path}>
            <code>{c.path}</code> {c.old || 'none'} → {c.new || 'none'} <span className="faint">{c.reason}</span>
          </li>
        ))}
        {plan.add.length > 0 && <li>{count(plan.add.length, 'node')} will come</li>}
        {plan.release.length > 0 && plan.steps.length === 0 && <li>{count(plan.release.length, 'node')} will go</li>}
        {plan.steps.map((s) => (
          <li key={`${s.node} ${s.action}`}>
            <code>{s.node}</code> {s.action === 'remove' ? 'goes' : 'boots again'}, {s.when}{' '}
            <span className="faint">{s.reason}</span>
          </li>
        ))}
      </ul>
      {plan.layouts?.map((l) => (
        <p key={l.queue + l.fabric} className="dim">
          {l.queue} on {l.fabric}: {l.text}
        </p>
      ))}
      {price && (
        <div className="line gap-20">
          <div className="big">
            <b>{price.number}</b>
            <span>{price.currency} per hour</span>
          </div>
          {total && (
            <div className="big">
              <b>{total.number}</b>
              <span>{total.currency} for its lease</span>
            </div>
          )}
        </div>
      )}
      {plan.after && <After quota={plan.after} />}
    </div>
  )
}

/** After is what a project has of its limits once a plan is carried out, beside what it has now. */
function After({ quota }: { quota: Schemas['Quota'] }) {
  const now = useQuery(quotaQuery(quota.project)).data
  const share = (words: string, of: 'nodes' | 'cores' | 'gpus') => {
    const { used, limit } = quota[of]
    const from = now && now[of].used !== used ? `${now[of].used} → ` : ''
    return [words, limit === undefined ? '' : `${from}${used} of ${limit}`] as const
  }
  const lasts = (l: Schemas['Limit']) => {
    const before = now?.limits.find((one) => one.what === l.what)?.left_seconds
    const text = `${l.percent} % used${l.left_seconds ? `, lasts ${span(l.left_seconds)}` : ''}`
    return [l.what, text + (before && l.left_seconds ? `, now ${span(before)}` : '')] as const
  }
  return (
    <Facts
      of={[
        share(`Nodes of ${quota.project}`, 'nodes'),
        share('Cores', 'cores'),
        share('GPUs', 'gpus'),
        ...quota.limits.map(lasts),
      ]}
    />
  )
}
