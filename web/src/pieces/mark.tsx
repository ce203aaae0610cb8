/** Ebb's logo: two waves. */
export function Mark({ size = 26 }: { readonly size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" className="mark__ground" />
      <path d="M4 13c4-5 8-5 12 0s8 5 12 0" className="mark__wave" />
      <path d="M8 22c2.7-3 5.3-3 8 0s5.300 3 8 0" className="mark__foam" />
    </svg>
  )
}
