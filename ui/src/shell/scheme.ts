// Light or dark: the system's, unless one was chosen here.

export type Scheme = 'light' | 'dark' | ''

export function chooseScheme(scheme: Scheme) {
  document.documentElement.style.colorScheme = scheme
  if (scheme) localStorage.setItem('scheme', scheme)
  else localStorage.removeItem('scheme')
}
