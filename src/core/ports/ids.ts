/** A random id, UUID v4. */
export type NewId = () => string
