"""What the page, the API and reports show, as plain data: the contract of `/api/v1` (fields are added, never changed).

Times are RFC 3339 text. Amounts are numbers in base units (cores, bytes, or a count) by the name of the resource. The
string below a field is its description in the OpenAPI document.
"""
