import { useEffect } from 'react'

/** useTitle names the page in the browser's tab. */
export function useTitle(words: string) {
  useEffect(() => {
    document.title = `${words} · Muster`
  }, [words])
}
