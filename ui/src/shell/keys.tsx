// Keys for what is done often. They do nothing while somebody writes.
import { Dialog } from '@base-ui/react/dialog'
import { useEffect, useSyncExternalStore } from 'react'

export type Key = { keys: string[]; words: string; act: () => void }

const writes = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** single says whether keys without Ctrl do something here: some people's programs press them by mistake. */
const single = () => localStorage.getItem('keys') !== 'off'

let registered: readonly Key[] = []
const listeners = new Set<() => void>()

function change(keys: readonly Key[]) {
  registered = keys
  for (const hear of listeners) hear()
}

/** useKeys has keys do something while a part is shown: single ones, "Ctrl k", or two after each other, "g h". */
export function useKeys(keys: readonly Key[]) {
  useEffect(() => {
    change([...registered, ...keys])
    return () => change(registered.filter((k) => !keys.includes(k)))
  }, [keys])
}

const subscribe = (hear: () => void) => {
  listeners.add(hear)
  return () => listeners.delete(hear)
}

let first = ''
let timer = 0

function press(e: KeyboardEvent) {
  const control = e.ctrlKey || e.metaKey
  if (e.defaultPrevented || e.repeat || e.altKey || (writes(e.target) && !control)) return
  if (document.querySelector('[role=dialog], [role=menu]')) return
  if (!control && (!single() || document.querySelector('.draft'))) return
  const pressed = control ? `Ctrl ${e.key.toLowerCase()}` : e.key
  const key = registered.find((k) => k.keys.join(' ') === (first ? `${first} ${pressed}` : pressed))
  window.clearTimeout(timer)
  first = ''
  if (key) {
    e.preventDefault()
    key.act()
  } else if (!control && registered.some((k) => k.keys[0] === pressed && k.keys.length > 1)) {
    first = pressed
    timer = window.setTimeout(() => (first = ''), 1000)
  }
}

/** Keys hears the keys, and lists them. */
export function Keys({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  const keys = useSyncExternalStore(subscribe, () => registered)
  useEffect(() => {
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog over-page">
          <Dialog.Title render={<h2 />}>Keys</Dialog.Title>
          <dl className="keys">
            {keys.map((k) => (
              <div key={k.words}>
                <dt>{k.words}</dt>
                <dd className="line gap-4">
                  {k.keys
                    .flatMap((one) => one.split(' '))
                    .map((one, i) => (
                      <kbd key={i}>{one}</kbd>
                    ))}
                </dd>
              </div>
            ))}
          </dl>
          <label className="line">
            <input
              type="checkbox"
              defaultChecked={single()}
              onChange={(e) => (e.target.checked ? localStorage.removeItem('keys') : localStorage.setItem('keys', 'off'))}
            />
            Keys without Ctrl do something
          </label>
          <div className="line end">
            <Dialog.Close className="btn">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
