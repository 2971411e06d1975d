/** The documents of the API that the page reads (docs/api.md). Times are ISO 8601 in UTC. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined }
export type JsonObject = { [name: string]: Json | undefined }

export type State = 'fresh' | 'stale' | 'running' | 'waiting' | 'failing' | 'missing' | 'source' | 'retired'
export type PartitionState = 'running' | 'failed' | 'missing' | 'frozen' | 'stale' | 'fresh'
export type RunStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled'
export type Outcome = 'run' | 'hold' | 'skip' | 'error'

export interface Page<T> {
  items: T[]
  next: string | null
}

export interface About {
  version: string
  at: string
  position: number
}

export interface Session {
  actor: string
  name: string | null
  scope: string
  scopes: string[]
  anonymous: boolean
  expiresAt: string | null
}

export interface Hold {
  reason: string
  until: string | null
  blocker: string | null
}

export interface PartitionSummary {
  total: number
  counts: Record<string, number>
}

export interface LastRun {
  runId: string
  status: RunStatus
  finishedAt: string | null
  reason: string | null
}

/** Rows of older code about which nobody has decided. */
export interface OlderCode {
  rows: number | null
  exact: boolean
  versions: number[]
  partitions: string[]
  partitionsTotal: number
  rebuildMs: number | null
}

export interface AssetState {
  assetId: string
  partitionKey: string
  workflowSlug: string | null
  state: State
  upstreamFailing: boolean
  needsDecision: OlderCode | null
  producedAt: string | null
  expiresAt: string | null
  expired: boolean
  dataVersion: string | null
  version: number | null
  tableVersion: number | null
  rows: number | null
  bytes: number | null
  mixed: boolean
  mixedUpstream: boolean
  runId: string | null
  lastAutoRun: LastRun | null
  nextRefreshAt: string | null
  hold: Hold | null
  partitions: PartitionSummary | null
}

export interface Asset extends AssetState {
  freshness: JsonObject | null
  autoMaterialize: JsonObject | null
  declaration: JsonObject
  consumedBy: string[]
}

export interface Pause {
  since: string
  until: string | null
}

export interface WorkflowState {
  slug: string
  workflowVersion: number
  project: string
  automatic: boolean
  paused: Pause | false
  inFlight: string | null
  inFlightStatus: RunStatus | null
  cooldown: { failures: number; nextEligibleAt: string | null }
  breaker: { state: 'open' | 'closed'; openedAt: string | null }
  hold: Hold | null
  succeededAt: string | null
  runsAvoided: number
}

export interface Workflow {
  slug: string
  workflowVersion: number
  project: string
  automatic: boolean
  appliedAt: string
  retiredAt: string | null
  fingerprint: string
  sourceFile: string | null
  sourceLine?: number | null
  definition: JsonObject
  produces: string[]
  consumes: string[]
}

export interface PolicyAsset {
  assetId: string
  partitionKey: string
  state: State
  producedAt: string | null
  expiresAt: string | null
  expired: boolean
  nextRefreshAt: string | null
  freshness: JsonObject | null
  autoMaterialize: JsonObject | null
  lag: { ageMs: number | null; maxAgeMs: number | null; overdue: boolean }
}

export interface PolicyStatus extends Omit<WorkflowState, 'inFlight' | 'inFlightStatus'> {
  at: string
  inFlight: { runId: string; status: RunStatus } | null
  lastAutoRun: LastRun | null
  nextRefresh: { at: string; reason: string; assetId: string } | null
  assets: PolicyAsset[]
}

export interface Pool {
  name: string
  project: string
  slots: number
  running: number
  queued: number
}

export interface RootCause {
  kind: 'never-reported' | 'nothing-found' | 'failing' | 'paused' | 'not-automatic'
  assetId: string | null
  workflowSlug: string | null
  partitionKey: string
  runId: string | null
  error: string | null
  append: boolean
  partitioned: boolean
}

export interface Status {
  at: string
  assets: AssetState[]
  workflows: WorkflowState[]
  pools: Pool[]
  notes: string[]
  warnings: string[]
  retired: number
  materializers: number
  rootCauses: RootCause[]
}

export interface Check {
  check: string
  severity: string
  passed: boolean
  observed: Json
  message?: string
}

export interface Column {
  name: string
  type: Json
  nullable?: boolean
}

export interface Snapshot {
  assetId: string
  partitionKey: string
  version: number
  dataVersion: string
  changed: boolean
  tableVersion: number | null
  location: JsonObject | null
  schema: { type: string; fields: Column[] } | null
  rows: number | null
  bytes: number | null
  checks: Check[] | null
  workflowSlug: string | null
  runId: string | null
  attempt: number | null
  stepId: string | null
  producedAt: string
  expiresAt: string | null
  inputs: Json
  sources: Json
  payload: Json
  goneAt: string | null
  difference: Record<string, string[]> | null
  head: boolean
}

export interface PartitionRange {
  state: PartitionState
  from: string
  to: string
  count: number
}

export interface AssetPartitions extends PartitionSummary {
  assetId: string
  at: string
  partitioning: JsonObject | null
  newest: string | null
  items: PartitionRange[]
  next: string | null
}

export interface GraphAsset {
  assetId: string
  workflowSlug: string | null
  stepId: string | null
  source: boolean
  consumes: string[]
  consumedBy: string[]
}

export interface Graph {
  assets: GraphAsset[]
  workflows: { slug: string; consumes: { assetId: string; triggers: boolean }[]; produces: string[] }[]
  edges: { from: string; to: string; workflowSlug: string; triggers: boolean }[]
}

export interface InputEvidence {
  assetId: string
  partitionKey?: string
  from: string | null
  to: string | null
  changed: boolean
  changes: number
  triggers: boolean
  retired?: boolean
  unread?: boolean
}

export interface Blocker {
  workflowSlug: string
  partitionKey?: string
  motion: string
  until: string | null
}

export interface Evidence {
  inputs?: InputEvidence[]
  cause?: string
  assetId?: string
  expiry?: { reason: string; expiresAt: string } | null
  foreign?: { assetId: string; madeBy: string | null; dataVersion: string }[]
  changes?: string[]
  error?: string
  until?: string
  alsoHeldBy?: string[]
  missing?: string[]
  runId?: string
  runStatus?: string
  trigger?: string
  renewed?: boolean
  superseded?: string
  failures?: number
  openedAt?: string
  nextProbeAt?: string
  producedAt?: string
  maxAgeMs?: number
  waitingFor?: string[]
  blockers?: Blocker[]
  deadline?: string
  waitedOut?: Blocker[]
  backfillId?: string
  retired?: string[]
  retiredCount?: number
  frozenAt?: string
  retiredAt?: string
  limit?: number
}

export interface Conclusion {
  workflowSlug: string
  partitionKey: string
  outcome: Outcome
  reason: string
  evidence: Evidence
}

export interface Decision extends Conclusion {
  id: string
  workflowVersion: number
  at: string
  lastAt: string
  count: number
  runId: string | null
  sentence?: string
}

export interface PlannedRun {
  order: number | null
  notBefore: string | null
  workflowSlug: string
  partitionKey: string
  assets: string[]
  outcome: Outcome
  reason: string
  upstream: string[]
  mixed: boolean
}

export interface PlannedHold extends Conclusion {
  assets: string[]
  until: string | null
  behind: string[]
}

export interface Plan {
  assetId: string
  assumes: string[]
  active: string[]
  runs: PlannedRun[]
  held: PlannedHold[]
  cut: PlannedHold[]
}

export interface RunError {
  code: string
  message: string
  step?: string | null
  traceback?: string | null
  checks?: Check[]
}

export interface StepMetrics {
  durationMs?: number
  rowsIn?: number
  bytesIn?: number
  rowsOut?: number
  bytesOut?: number
  tasks?: number
  [name: string]: Json | undefined
}

export interface Step {
  stepId: string
  attempt: number
  try: number
  status: 'running' | 'succeeded' | 'failed' | 'canceled' | 'lost'
  startedAt: string
  finishedAt: string | null
  metrics: StepMetrics | null
  error: RunError | null
}

export interface Trigger {
  type: 'auto-materialize' | 'manual' | 'backfill'
  reason?: string
  assetId?: string
  partitionKey?: string
  upstream?: { assetId: string; partitionKey: string; from: string | null; to: string; runId: string | null }[]
  expiry?: { reason: string; expiresAt: string } | null
  eventIds?: string[]
  backfillId?: string
  decisionId?: string
  parameters?: string[]
  fullRefresh?: boolean
}

export interface RunInput {
  assetId: string
  partitionKey: string
  dataVersion: string
  version: number
}

export interface RunOutput {
  assetId: string
  partitionKey: string
  version: number
  dataVersion: string
  changed: boolean
  rows: number | null
  bytes: number | null
  checks: Check[] | null
  eventId?: string | null
}

export interface Progress {
  step?: string | null
  job?: { done: number | null; total: number | null } | null
  spark?: { done?: number; total?: number; running?: number; stages?: number }
}

export interface Run {
  id: string
  workflowSlug: string
  partitionKey: string
  partitionKeys: string[]
  batchId: string | null
  status: RunStatus
  attempt: number
  trigger: Trigger
  priority: number
  mixed: boolean
  mixedUpstream: boolean
  parameters: JsonObject
  workflowVersion: number
  queuedAt: string
  startedAt: string | null
  finishedAt: string | null
  error: RunError | null
  result: { assets: string[]; unchanged: string[] } | null
  progress: Progress | null
  workerId: string | null
  leaseUntil: string | null
  cancelReason: string | null
  decisionId: string | null
  inputs: RunInput[]
  steps: Step[]
}

export interface RunDetail extends Run {
  outputs: RunOutput[]
  heads?: RunInput[]
}

export interface LogLine {
  line: number
  at: string
  attempt: number
  stepId: string
  stream: string
  text: string
}

export interface FreshlineEvent {
  id: string
  type: string
  subject: string
  time: string
  position: number | null
  data: JsonObject
}

export interface EventFate {
  workflowSlug: string
  partitionKey: string
  fate: 'triggered' | 'included' | 'superseded' | 'held' | 'ignored' | 'pending'
  reason: string | null
  until: string | null
  runId: string | null
  runStatus: string | null
  supersededBy: string | null
  decisionId: string | null
  evidence: Evidence
}

export interface EventDetail extends FreshlineEvent {
  consumers: number
  fates: EventFate[]
}

export interface Worker {
  id: string
  kind: 'materializer' | 'worker' | 'api'
  host: string
  pid: number
  live: boolean
  project: string | null
  codeHash: string | null
  info: JsonObject
  startedAt: string
  seenAt: string
  stoppedAt: string | null
  runs: string[]
}

export interface AuditEntry {
  id: string
  at: string
  who: string
  tokenId: string | null
  what: string
  subject: string
  before: JsonObject | null
  after: JsonObject | null
}

export interface Watch {
  assetId: string
  kind: string
  mode: string
  watch: JsonObject
  looking: boolean
  lookedAt: string | null
  nextAt: string
  summary: string | null
  reported: number
  reportedAt: string | null
  reportedPartitions: string[]
  conflicts: { subject: string; message: string }[]
  failures: number
  failingSince: string | null
  lookError: string | null
  breakerOpenedAt: string | null
}

export interface Delivery {
  number: number
  path: string | null
  dataVersion: string | null
  payload: Json
  version: number
  key: string | null
  reportedAt: string
  eventId: string
  skipped?: { by: string | null; at: string; reason: string } | null
}

export interface Webhook {
  id: string
  name: string
  kind: string
  url: string
  types: string[]
  assets: string[]
  createdAt: string
  paused: boolean
  position: number
  delivered: number
  deliveredAt: string | null
  failures: number
  trouble: string | null
  nextAttemptAt: string | null
  waiting: number
  dead: number
}

export interface WebhookDelivery {
  eventId: string
  position: number
  state: 'waiting' | 'dead'
  attempts: number
  triedAt: string
  nextAttemptAt: string | null
  deadAt: string | null
  trouble: string
}

export interface Alert {
  id: string
  name: string
  project: string | null
  on: string[]
  assets: string[]
  to: string[]
  afterMs: number
  clearAfterMs: number
  quiet: JsonObject[]
  digest: JsonObject | null
  createdAt: string
  paused: boolean
  open: number
  waiting: number
  dead: number
  sent: number
  trouble: string | null
}

export interface AlertIncident {
  id: string
  rootType: 'workflow' | 'asset'
  root: string
  kinds: string[]
  assets: string[]
  affected: number
  members: number
  error: string | null
  runId: string | null
  openedAt: string
  recoveredAt: string | null
  closedAt: string | null
  closing: string | null
  alertedAt: string | null
  clearedAt: string | null
}

export interface AlertMessage {
  number: number
  kind: 'alert' | 'clear' | 'summary'
  to: string | null
  title: string | null
  state: 'waiting' | 'sent' | 'dead'
  incidents: string[]
  createdAt: string
  attempts: number
  nextAttemptAt: string | null
  sentAt: string | null
  trouble: string | null
}

export interface Token {
  id: string
  name: string
  scope: string
  data: boolean
  createdAt: string
  expiresAt: string
  revokedAt: string | null
  usedAt: string | null
  active: boolean
}

export interface BackfillProgress {
  total: number
  done: number
  failed: number
  refused: number
  running: number
  queued: number
  waiting: number
  rest: number
}

export type BackfillStatus = 'proposed' | 'active' | 'paused' | 'finished' | 'canceled' | 'denied'

export interface Backfill {
  id: string
  project: string
  assetId: string
  status: BackfillStatus
  requestedBy: string | null
  requestedAt: string
  selection: JsonObject | string
  upstream: boolean
  downstream: boolean
  only: string
  batch: number
  concurrency: number
  order: string
  notBefore: string | null
  duringQuietHours: boolean
  priority: number
  partial: boolean
  revision: number
  reasons: JsonObject[] | null
  progressedAt: string | null
  endedAt: string | null
  progress: BackfillProgress
  etaMs: number | null
}

export interface BackfillPart extends BackfillProgress {
  workflowSlug: string
  workflowVersion: number
  selection: Json
  states: PartitionRange[]
}

export interface PreviewPart {
  workflowSlug: string
  partitions: number
  runs: number
  first: string
  last: string
  frozen: number
  sealed: number
  outside: number
  p50Ms: number | null
  p95Ms: number | null
  rows: number | null
  bytes: number | null
}

export interface BackfillPreview {
  assetId: string
  partitions: number
  parts: PreviewPart[]
  downstream: { workflowSlug: string; partitions: number }[]
}

export interface BackfillDetail extends Backfill {
  parts: BackfillPart[]
  failures: { workflowSlug: string; partitionKey: string; state: string }[]
  cost: BackfillPreview | null
}

export interface NextStep {
  text: string
  command: string | null
  action: { type: 'report' | 'run' | 'resume' | 'reset' | 'approve'; target: string } | null
}

export interface Cause {
  kind: string
  assetId: string | null
  workflowSlug: string | null
  partitionKey: string
  runId: string | null
  backfillId: string | null
  reason: string | null
  since: string | null
  until: string | null
  explains: number
  behind: number
  assets: string[]
  sentence: string
  error: string | null
  next: NextStep
}

export interface Overview {
  at: string
  position: number
  sentence: string
  total: number
  counts: Record<string, number>
  causes: Cause[]
  moreCauses: number
  lag: {
    promised: number
    overdue: number
    worst: { assetId: string; ageMs: number; maxAgeMs: number; overdue: boolean }[]
    behind: { assetId: string; lagMs: number }[]
  }
  runs: { running: number; queued: number; succeeded24h: number; failed24h: number; avoided24h: number }
  processes: { materializers: number; workers: number; apis: number; silent: number }
  pools: Pool[]
  watches: { total: number; failing: number; stopped: number }
  notes: string[]
  changedSinceYesterday: {
    since: string
    assets: number
    versions: number
    identical: number
    failing: string[]
    definitions: { slug: string; workflowVersion: number; appliedAt: string }[]
    changes: number
  }
}

export interface Rows {
  assetId: string
  partitionKey: string
  version: number
  tableVersion: number | null
  columns: { name: string; type: string }[]
  rows: (string | number | null)[][]
  truncated: boolean
  cut: boolean
}

export interface Percentiles {
  p50: number
  p95: number
  max: number
}

/** What happened in each bucket of the time, the oldest first. A lag is where its change happened. */
export interface SimulationSeries {
  bucketSeconds: number
  runs: number[]
  slotHours: number[]
  lagSeconds: (Percentiles | null)[]
}

export interface SimulationResult {
  runs: number
  failed: number
  mixed: number
  avoided: number
  pending: number
  slotHours: number
  breaches: number
  holds: Record<string, number>
  heldPartitions: number | null
  lagSeconds: Percentiles | null
  series: SimulationSeries
}

export interface SimulationNumbers {
  runs: number
  partitions: number | null
  runSeconds: number
  lagSeconds: Percentiles | null
}

export interface Simulation {
  start: string
  end: string
  seed: number
  slots: number
  reports: number
  notes: string[]
  before: SimulationResult
  after: SimulationResult | null
  workflows: { slug: string; changed: boolean; before: SimulationNumbers | null; after: SimulationNumbers | null }[]
  yaml: Record<string, string>
}
