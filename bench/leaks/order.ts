/** What one measurement process is asked to do. */
export interface Order {
  readonly kind: 'cell' | 'baseline'
  readonly way: string
  readonly program: string
  readonly agents: number
  readonly base: string
  readonly mark: string
}
