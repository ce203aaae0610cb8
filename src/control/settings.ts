/** What an agent may take, unless its launch says otherwise. */
export interface Caps {
  /** Agents that live at the same time. */
  readonly maxAgents: number
  /** On the disk of the home, or nothing is launched. */
  readonly minFreeBytes: number
  /** Of each output stream. */
  readonly logBytes: number
  readonly messages: number
  readonly timeoutMs: number
  readonly idleMs: number
}
