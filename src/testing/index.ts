/** The testing kit, for tests of programs that run agents: throw-away servers, verified cleanups, and waits that end at the event. */
export { type CleanupOptions, type CleanupResult, cleanupRealAgents, cleanupRealAgents as cleanupAllAgents } from './cleanup.ts'
export { type CleanupManagerOptions, TestCleanupManager } from './cleanup-manager.ts'
export type { EbbHandle, LaunchBody, Leaks } from './handle.ts'
export type { Address, NamespacedRequest, RequestLike, RequestOptions, ResponseLike, Target } from './request.ts'
export { type ServerOptions, startServer, type ThrowAwayServer } from './server.ts'
export { type TerminalState, waitForAgentTerminalState } from './wait.ts'
export { type AgentSummary, type CleanupStatus, verifyTestIsolation } from './world.ts'
