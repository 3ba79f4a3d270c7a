// Libraries make style elements. The policy of the page lets those through that show its number, which the controller has
// written into the page.
const number = document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce

if (number) {
  const make = document.createElement.bind(document)
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    const element = make(tag, options)
    if (tag.toLowerCase() === 'style') element.setAttribute('nonce', number)
    return element
  }) as typeof document.createElement
}
