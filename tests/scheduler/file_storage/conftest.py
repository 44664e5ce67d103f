from versitygw import s3, s3_storage  # noqa: F401 fixtures are found by their names
