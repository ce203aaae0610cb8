/** A model that follows a script, for end-to-end tests with real agents: no key, no tokens, no network. */

export type { ModelRequest } from './memory.ts'
export { type ModelOptions, type ScriptedModel, startScriptedModel } from './model.ts'
export type { Script } from './script.ts'
