import { useEffect, useRef, useState } from 'react'

import { NoAnswer } from '../api'

/**
 * useOnce does what must not be done twice. After no answer another try has the same key, unless what is asked for, of, has become
 * another request meanwhile.
 */
export function useOnce(of: string) {
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState<Error>()
  const key = useRef('')
  useEffect(() => {
    key.current = ''
  }, [of])
  const run = async (act: (key: string) => Promise<void>) => {
    setBusy(true)
    setWrong(undefined)
    key.current ||= crypto.randomUUID()
    try {
      await act(key.current)
    } catch (why) {
      if (!(why instanceof NoAnswer)) key.current = ''
      setWrong(why as Error)
    }
    setBusy(false)
  }
  return { busy, wrong, run }
}
