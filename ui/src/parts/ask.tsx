// Asking before something is done: what will happen, the same as a command, and why it was refused.
import { Dialog } from '@base-ui/react/dialog'
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'

import { useLive } from '../live'
import { useOnce } from './once'
import { Command, Wrong } from './panel'

type Props = {
  title: string
  act: string
  bad?: boolean // something is lost by it
  ready?: boolean
  command?: string
  /** does it; a request with the same key is carried out once. */
  onAct: (key: string) => Promise<unknown>
  onClose: () => void
  children?: ReactNode
}

/** Ask is a dialog that does something, or does not. It closes when that is accepted. */
export function Ask({ title, act, bad = false, ready = true, command, onAct, onClose, children }: Props) {
  const { busy, wrong, run } = useOnce(command ?? '')
  const { live } = useLive()
  const shown = useRef(true)
  const [from] = useState(() => document.activeElement)
  useEffect(() => {
    shown.current = true
    return () => {
      shown.current = false
    }
  }, [])
  const can = ready && !busy && live !== false
  const submit = async (e: FormEvent) => {
    e.preventDefault()
    if (!can) return
    await run(async (key) => {
      await onAct(key)
      if (shown.current) onClose()
    })
  }
  return (
    <Dialog.Root open onOpenChange={(open) => !open && !busy && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup
          className="dialog over-page"
          finalFocus={() =>
            from instanceof HTMLElement && from !== document.body && from.isConnected ? from : document.getElementById('page')
          }
        >
          <Dialog.Title render={<h2 />}>{title}</Dialog.Title>
          <form className="stack" onSubmit={(e) => void submit(e)}>
            {children}
            {wrong && <Wrong why={wrong} />}
            {live === false && <p className="t-warn">Not connected to the controller.</p>}
            {command && <Command text={command} />}
            <div className="line end">
              <Dialog.Close className="btn" disabled={busy}>
                Cancel
              </Dialog.Close>
              <button className={bad ? 'btn bad' : 'btn main'} aria-disabled={!can}>
                {busy ? 'Asked for …' : act}
              </button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
