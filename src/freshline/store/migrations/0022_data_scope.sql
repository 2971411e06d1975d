-- A right of a token that its scope does not include: to read the rows of tables through the API.
ALTER TABLE api_tokens ADD COLUMN data boolean NOT NULL DEFAULT false;
