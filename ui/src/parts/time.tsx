// One clock for all ages on a page.
import { useSyncExternalStore } from 'react'

import { clockSkew } from '../api'
import { span } from '../words'

let now = Date.now()
const listeners = new Set<() => void>()

setInterval(() => {
  now = Date.now() + clockSkew()
  for (const hear of listeners) hear()
}, 1000)

const subscribe = (hear: () => void) => {
  listeners.add(hear)
  return () => listeners.delete(hear)
}

/** useNow is the time, once a second. */
export const useNow = () => useSyncExternalStore(subscribe, () => now)

/** Ago is how long ago something was. */
export function Ago({ at }: { at: string }) {
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {span((useNow() - Date.parse(at)) / 1000)}
    </time>
  )
}

/** Until is how long it is until something. */
export function Until({ at }: { at: string }) {
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {span((Date.parse(at) - useNow()) / 1000)}
    </time>
  )
}
