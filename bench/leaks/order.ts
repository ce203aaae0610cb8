/** The input of a measurement process. */
export interface Order {
  readonly kind: 'cell' | 'baseline'
  readonly way: string
  readonly program: string
  readonly agents: number
  readonly base: string
  readonly mark: string
}
