// Libraries make style elements. The policy of the page lets those through that show its number, which the controller has
// written into the page.
const number = document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce

// They write style attributes, too, which it never lets through: by a property it does.
const set = Element.prototype.setAttribute
Element.prototype.setAttribute = function (this: Element, name: string, value: string) {
  if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value
  else set.call(this, name, value)
}

if (number) {
  const make = document.createElement.bind(document)
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    const element = make(tag, options)
    if (tag.toLowerCase() === 'style') element.setAttribute('nonce', number)
    return element
  }) as typeof document.createElement
}
