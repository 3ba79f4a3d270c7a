// Words for people: times, money, sizes. They are those of the command line.

/** span is a length of time as people plan with it: "6d 22h", "31m", "12s". */
export function span(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds))
  const parts = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'm'],
    [1, 's'],
  ] as const
  const first = parts.findIndex(([size]) => s >= size)
  if (first < 0) return '0s'
  let left = s
  const words: string[] = []
  for (const [size, unit] of parts.slice(first, first + 2)) {
    const n = Math.floor(left / size)
    left -= n * size
    if (n > 0) words.push(n + unit)
  }
  return words.join(' ')
}

/** money takes an amount apart, as in "12.50 EUR". */
export function money(amount: string): { number: string; currency: string } {
  const [number = '', currency = ''] = amount.split(' ')
  const [whole = '', cents = '00'] = number.split('.')
  return { number: whole.replace(/\B(?=(\d{3})+$)/g, ',') + '.' + cents.slice(0, 2), currency }
}

/** amounts are several, of several currencies, as in "12.50 EUR + 3.00 USD". */
export const amounts = (all: string) =>
  all
    .split(' + ')
    .map((one) => `${money(one).number} ${money(one).currency}`)
    .join(' + ')

/** bytes is a size in binary units: "41 GiB". */
export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let unit = 0
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return `${n < 10 && unit > 0 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`
}

/** mebibytes is a size that is told in MiB. */
export const mebibytes = (n: number) => bytes(n * 1024 * 1024)

/** percent is a share: "41 %"; nothing for what is not known. */
export const percent = (share: number | undefined) => (share === undefined ? '' : `${Math.round(100 * share)} %`)

/** count is a number with its noun: "1 node", "3 nodes". */
export function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`
}

/** clock is a time of today as "18:24:07", else with its day: "22 Nov 18:24". */
export function clock(at: Date, now: Date): string {
  const two = (n: number) => String(n).padStart(2, '0')
  if (at.toDateString() === now.toDateString()) return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
  const month = at.toLocaleString('en-GB', { month: 'short' })
  return `${at.getDate()} ${month} ${two(at.getHours())}:${two(at.getMinutes())}`
}

/** quoted is a word for a shell, whatever it holds. */
export const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** stands is where a machine stands: "rack r01, units 8 to 9, slot 1". */
export const stands = (l: { rack: string; unit: number; height: number; slot?: number }) =>
  `rack ${l.rack}, ${l.height > 1 ? `units ${l.unit} to ${l.unit + l.height - 1}` : `unit ${l.unit}`}${l.slot ? `, slot ${l.slot}` : ''}`
