import { describeZoo } from '../../support/zoo-suite.ts'

describeZoo('cgroup')
