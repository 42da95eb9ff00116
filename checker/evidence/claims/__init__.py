"""`verify claims`: statements about these pipelines, each settled by engine runs on models of them."""
