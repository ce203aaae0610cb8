import { itLeavesNothing } from './support/suite.ts'

itLeavesNothing('codex', 'process')
