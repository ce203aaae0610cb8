import { itLeavesNothing } from './support/suite.ts'

itLeavesNothing('opencode', 'remote')
