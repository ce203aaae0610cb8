import { itLeavesNothing } from './support/suite.ts'

itLeavesNothing('claude-code', 'process')
